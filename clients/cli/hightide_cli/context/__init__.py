"""`hightide context`: names for clusters, and the choice of one."""
