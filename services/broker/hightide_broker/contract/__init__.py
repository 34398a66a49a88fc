"""Where protobuf messages and the broker's own dataclasses meet."""
