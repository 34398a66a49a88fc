"""The PySpark data source of Hightide, and the pipelines built on it."""
