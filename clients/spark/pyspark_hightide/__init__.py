"""The name under which Spark finds the Hightide data source without registration."""
