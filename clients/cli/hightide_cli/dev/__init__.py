"""`hightide dev`: a whole cluster on this machine."""
