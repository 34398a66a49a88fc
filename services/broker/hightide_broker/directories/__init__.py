"""The data directories of a broker: the replicas in each, syncing, retention, checks of data at rest, and
repair."""
