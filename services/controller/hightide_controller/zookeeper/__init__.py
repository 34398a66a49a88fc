"""What a controller reads from ZooKeeper, writes to it and watches."""
