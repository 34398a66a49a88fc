"""A consumer as a member of a group: joining, owning partitions, committing, leaving."""
