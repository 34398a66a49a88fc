"""Lets `df.write.format("hightide").save()` append, as it does for Spark's Kafka sink.

A save without a mode means `errorifexists` to Spark. It refuses that for every Python data source before it
asks the source, and no setting changes it. Spark's Kafka sink, which is written in Scala, is asked, and
appends. So the Python classes that save are told the mode of this one format.
"""

import functools
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_FORMAT: Final = "hightide"
_SPARK_DEFAULT: Final = "errorifexists"
# Attributes of a writer: whether the program has named a mode, and whether `append` is only our default.
_IS_NAMED: Final = "_hightide_mode_is_named"
_IS_OURS: Final = "_hightide_mode_is_ours"


def append_by_default(session: "SparkSession") -> None:
    """From now on a write in this process with the format `hightide` and without a mode appends. A mode that
    the program names stays, and so do other formats. `spark_session` calls it; a program that makes its
    session otherwise may call it once."""
    writer = _writer_class(session)
    if getattr(writer.format, "is_ours", False):
        return
    plain_format, plain_mode = writer.format, writer.mode

    @functools.wraps(plain_mode)
    def mode(self: Any, saveMode: str | None) -> Any:  # noqa: N803 - Spark's name
        if saveMode is not None:
            setattr(self, _IS_NAMED, True)
        return plain_mode(self, saveMode)

    @functools.wraps(plain_format)
    def format_(self: Any, source: str) -> Any:
        if not getattr(self, _IS_NAMED, False):
            if source.lower() == _FORMAT:
                plain_mode(self, "append")
                setattr(self, _IS_OURS, True)
            elif getattr(self, _IS_OURS, False):
                plain_mode(self, _SPARK_DEFAULT)
                setattr(self, _IS_OURS, False)
        return plain_format(self, source)

    format_.is_ours = True  # type: ignore[attr-defined]
    writer.mode, writer.format = mode, format_


def _writer_class(session: "SparkSession") -> Any:
    """The class of `df.write` in this kind of session: Spark Connect has one of its own."""
    if type(session).__module__.startswith("pyspark.sql.connect"):
        from pyspark.sql.connect.readwriter import DataFrameWriter as ConnectWriter

        return ConnectWriter
    from pyspark.sql import DataFrameWriter

    return DataFrameWriter
