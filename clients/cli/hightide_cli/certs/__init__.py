"""`hightide certs`: the certificates of a small cluster."""
