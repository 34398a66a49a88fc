"""`hightide cluster`: the cluster as the controller sees it, and questions to servers about themselves."""
