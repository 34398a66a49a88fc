"""`hightide trace`: traces of the cluster, found, laid out and drawn."""
