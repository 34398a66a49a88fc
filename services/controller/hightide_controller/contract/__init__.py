"""The conversions between protobuf messages and the controller's own dataclasses."""
