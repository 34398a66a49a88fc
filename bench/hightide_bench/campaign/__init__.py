"""Random faults of every kind on a cluster of its own, and the verdict."""
