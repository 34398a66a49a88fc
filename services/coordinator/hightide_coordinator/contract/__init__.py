"""Conversion between protobuf messages and the coordinator's own dataclasses."""
