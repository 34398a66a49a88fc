"""What clients saw of a cluster under faults, and the judgement of it: for tests and bench faults."""
