"""The consumer coordinator: it assigns partitions to the consumers of a group."""
