"""The processes of a local cluster, and the network between them."""
