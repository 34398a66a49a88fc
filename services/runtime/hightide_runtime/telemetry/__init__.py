"""Spans and metrics: what is declared, and where it goes."""
