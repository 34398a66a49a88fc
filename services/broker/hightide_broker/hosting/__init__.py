"""The controller's orders, and the start of a broker: which replicas this broker holds."""
