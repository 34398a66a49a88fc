"""The conversions between protobuf messages and the broker's own dataclasses."""
