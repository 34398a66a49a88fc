"""Jars that the local cluster runs: ZooKeeper's, from where there are some, else from a Maven repository."""
