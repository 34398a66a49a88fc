"""A client's knowledge of the cluster, and its requests for more."""
