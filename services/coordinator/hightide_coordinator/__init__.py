"""The consumer coordinator: it shares partitions out among the consumers of a group."""
