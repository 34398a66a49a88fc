"""Measures how fast Spark reads, writes and streams."""
