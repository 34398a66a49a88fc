"""The znodes that Hightide writes. Only this room has paths of ZooKeeper."""
