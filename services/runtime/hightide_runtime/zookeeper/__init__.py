"""The session with ZooKeeper, and what rests on it: elections, candidates, the identity of the cluster."""
