"""What a controller remembers of the cluster, and of the work that is under way."""
