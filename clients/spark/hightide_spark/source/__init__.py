"""The reading side: what Spark calls on the driver to plan, and in its workers to read."""
