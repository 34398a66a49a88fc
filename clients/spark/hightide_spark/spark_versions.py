"""What the installed Spark offers to Python data sources. They came with Spark 4.0, and have grown since.

| from | there are |
| --- | --- |
| 4.0 | batches and streams, and Arrow for batch writes |
| 4.1 | filters that are pushed down |
| 4.2 | admission control: the start and the limit of a micro-batch, and the lag in the progress |

What a version lacks is refused with a sentence where an option needs it, and done otherwise where it can be.
"""

import inspect
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final

import pyspark
from pyspark.sql import datasource
from pyspark.sql.pandas.types import to_arrow_schema

from hightide_spark.errors import NewerSparkNeededError

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

HAS_FILTER_PUSHDOWN: Final = hasattr(datasource, "Filter")
HAS_ADMISSION_CONTROL: Final = find_spec("pyspark.sql.streaming.datasource") is not None


def stream_arrow_writer() -> Any:
    """The class of streaming writers that get Arrow batches. Spark 4.0 has none by name, and gives batches to
    a streaming writer that is an Arrow writer as well."""
    found = getattr(datasource, "DataSourceStreamArrowWriter", None)
    if found is not None:
        return found

    class StreamArrowWriter(datasource.DataSourceStreamWriter, datasource.DataSourceArrowWriter):  # type: ignore[misc]
        """Both of Spark 4.0."""

    return StreamArrowWriter


def arrow_schema_of(schema: "StructType") -> Any:
    """The Arrow schema of the batches that Spark takes for this schema, with timestamps in UTC."""
    if "timezone" in inspect.signature(to_arrow_schema).parameters:
        return to_arrow_schema(schema, timezone="UTC")
    return to_arrow_schema(schema)


def need_admission_control(options: tuple[str, ...]) -> None:
    """Raise NewerSparkNeededError if these options of a stream were given, and Spark has no admission
    control. The datasource calls it when it makes the reader of a stream."""
    if options and not HAS_ADMISSION_CONTROL:
        raise NewerSparkNeededError(
            f"option {options[0]} needs Spark 4.2 or later: Spark {pyspark.__version__} does not tell Python "
            "sources where a micro-batch begins; leave it out, and each one takes all records that are there"
        )


def need_filter_pushdown(option: str) -> None:
    """Raise NewerSparkNeededError if Spark pushes no filters into Python sources. The batch reader calls it
    for option pushdown."""
    if not HAS_FILTER_PUSHDOWN:
        raise NewerSparkNeededError(
            f"option {option} needs Spark 4.1 or later: Spark {pyspark.__version__} pushes no filters into "
            "Python sources; leave it out, and narrow the read by startingOffsets or startingTimestamp"
        )
