"""The data source `hightide`: `spark.read.format("hightide")`, `readStream`, `write` and `writeStream`.

Spark makes the data source in a Python process of the driver, pickles it, and asks it for a reader or writer.
So it holds only the options, and imports readers and writers on demand. Each question of the driver is a new
process, so that what it does not need is not imported: the clients of the SDK, and for the schema Arrow too.
"""

from typing import TYPE_CHECKING

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)

from hightide_spark.loaded_modules import freeze_modules

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


class HightideDataSource(DataSource):
    """Reads and writes topics. The options have the names and the meaning of Spark's Kafka source; see
    `hightide_spark.core.source_options` and `sink_options`. Errors are those of `hightide_spark.errors`, and
    the SDK's if the cluster refuses a request."""

    @classmethod
    def name(cls) -> str:
        """The name for `format(…)`."""
        return "hightide"

    def schema(self) -> str:
        """The columns if the user names none; called by `load()`, which also refuses wrong options."""
        from hightide_spark.core.schema import default_ddl
        from hightide_spark.core.source_options import includes_headers

        return default_ddl(includes_headers(self.options))

    def reader(self, schema: "StructType") -> DataSourceReader:
        """The reader of a batch. Raises OptionError and UnsupportedSchemaError."""
        freeze_modules()
        from hightide_spark.source.batch_reader import batch_reader

        return batch_reader(self.options, schema)

    def streamReader(self, schema: "StructType") -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """The reader of a stream. Raises OptionError and UnsupportedSchemaError."""
        freeze_modules()
        from hightide_spark.spark_versions import HAS_ADMISSION_CONTROL

        if HAS_ADMISSION_CONTROL:
            from hightide_spark.source.stream_reader import StreamReader

            return StreamReader(self.options, schema)
        from hightide_spark.source.unlimited_stream_reader import UnlimitedStreamReader

        return UnlimitedStreamReader(self.options, schema)

    def writer(self, schema: "StructType", overwrite: bool) -> DataSourceWriter:
        """The writer of a batch. Raises OptionError and UnsupportedSchemaError."""
        from hightide_spark.sink.writer import batch_writer

        return batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: "StructType", overwrite: bool) -> DataSourceStreamWriter:  # noqa: N802
        """The writer of a stream. Raises OptionError and UnsupportedSchemaError."""
        from hightide_spark.sink.writer import stream_writer

        return stream_writer(self.options, schema, overwrite)
