"""Both sides of ReplicaFetch, and ISR changes in ZooKeeper."""
