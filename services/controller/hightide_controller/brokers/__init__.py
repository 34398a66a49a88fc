"""The active controller's connections to brokers: sending decisions, watching processes, and trying dead ones
again."""
