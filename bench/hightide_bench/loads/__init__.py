"""The processes that load a cluster while it is measured."""
