"""For each partition: its owner, the member that may be reading it, and the member that should own it."""
