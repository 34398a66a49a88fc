"""`hightide zk`: a look into ZooKeeper."""
