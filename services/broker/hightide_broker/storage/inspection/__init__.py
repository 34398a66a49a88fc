"""Looks into logs and the files beside them without changing anything."""
