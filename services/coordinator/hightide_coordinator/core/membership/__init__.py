"""Consumers come, answer, are silent, go."""
