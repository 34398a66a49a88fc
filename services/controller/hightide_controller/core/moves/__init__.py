"""Moving partitions to other brokers, and the speed limit of moves."""
