"""The values of the controller's core: partitions, requests, writes, settings of topics."""
