"""Every znode that Hightide writes: the only place that spells a ZooKeeper path."""
