"""Brokers come, go, die, are silent, and report replicas that failed or are damaged."""
