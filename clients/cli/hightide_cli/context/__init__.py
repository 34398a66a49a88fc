"""`hightide context`: clusters with names, and which one is meant."""
