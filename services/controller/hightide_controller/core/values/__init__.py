"""What the controller's core speaks of: partitions, requests, writes, settings of topics."""
