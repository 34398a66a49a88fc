"""The values of the coordinator's core: partitions, registrations, refusals, limits."""
