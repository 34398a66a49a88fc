"""Spans and metrics: their declarations and their export."""
