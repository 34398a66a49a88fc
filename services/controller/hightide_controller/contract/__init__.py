"""Where protobuf messages and the controller's own dataclasses meet."""
