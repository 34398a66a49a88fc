"""`hightide top`: what moves in the cluster."""
