"""`hightide top`: the traffic in the cluster."""
