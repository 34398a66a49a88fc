"""The reads, writes and watches of a coordinator in ZooKeeper, and its election."""
