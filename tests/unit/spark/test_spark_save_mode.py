"""The mode of a write in a session of Spark Connect, whose classes need no server for this. tests/spark has
the session of a driver."""

from typing import Any

import pytest
from hightide_spark.save_mode import append_by_default
from pyspark.sql.connect.plan import Range
from pyspark.sql.connect.readwriter import DataFrameWriter
from pyspark.sql.connect.session import SparkSession


@pytest.fixture
def writer(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A writer of ten rows, of a class that is as before after the test."""
    for name in ("format", "mode"):
        monkeypatch.setattr(DataFrameWriter, name, getattr(DataFrameWriter, name))
    session: Any = SparkSession.__new__(SparkSession)
    for _ in range(2):
        append_by_default(session)
    return DataFrameWriter(Range(0, 10, 1), session)


def test_a_write_to_hightide_appends_unless_the_program_names_a_mode(writer: Any) -> None:
    assert writer.format("hightide")._write.mode == "append"
    assert writer.mode("ignore")._write.mode == "ignore"
    assert writer.format("HighTide")._write.mode == "ignore"


def test_a_mode_that_was_named_before_the_format_stays(writer: Any) -> None:
    assert writer.mode("overwrite").format("hightide")._write.mode == "overwrite"


def test_another_format_has_the_default_of_spark(writer: Any) -> None:
    assert writer.format("parquet")._write.mode is None
    assert writer.format("hightide").mode(None).format("parquet")._write.mode == "errorifexists"
