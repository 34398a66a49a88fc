"""The traces of a controller's work."""
