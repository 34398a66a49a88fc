"""`hightide acl`: who may do what."""
