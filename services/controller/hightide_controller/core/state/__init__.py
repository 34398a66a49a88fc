"""What a controller remembers of the cluster, and of work under way."""
