"""What the coordinator's core speaks of: partitions, registrations, refusals, limits."""
