"""Comparing a log with what is recorded about it, opening it, and repairing it."""
