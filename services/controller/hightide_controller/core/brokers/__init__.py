"""Brokers that start, stop, die or are silent, and their reports about failed and damaged replicas."""
