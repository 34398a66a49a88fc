"""Where protobuf messages and the coordinator's own dataclasses meet."""
