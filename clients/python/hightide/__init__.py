"""Hightide: a replicated, partitioned commit log. This package is its Python SDK."""
