"""The session with ZooKeeper, and what depends on it: elections, candidates, the identity of the cluster."""
