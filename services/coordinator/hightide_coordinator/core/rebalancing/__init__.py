"""When a group is rebalanced, and changes of topics that are a reason for it."""
