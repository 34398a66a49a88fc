"""The streams of consumers."""
