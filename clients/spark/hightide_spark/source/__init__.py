"""The reading side. Spark calls it on the driver to plan a read, and in its workers to read."""
