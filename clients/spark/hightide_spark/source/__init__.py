"""The reading side, which Spark calls on the driver to plan, and in its workers to read."""
