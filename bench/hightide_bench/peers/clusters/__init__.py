"""The two clusters, each behind the same interface."""
