"""Partitions move to other brokers, and how fast."""
