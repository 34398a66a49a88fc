"""What a coordinator reads from ZooKeeper, writes to it and watches; its election."""
