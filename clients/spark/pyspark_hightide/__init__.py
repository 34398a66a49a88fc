"""The name under which Spark finds the Hightide data source without registration: it looks for
`DefaultSource` in every top-level module called `pyspark_…`."""

from hightide_spark.datasource import HightideDataSource as DefaultSource

__all__ = ["DefaultSource"]
