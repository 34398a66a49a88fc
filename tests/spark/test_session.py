"""What `spark_session` gives, by asking the session."""

import os
import sys
from typing import TYPE_CHECKING

from hightide_spark.session import spark_session

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_session_is_in_utc_on_loopback_and_its_workers_are_of_this_python(
    spark: "SparkSession",
) -> None:
    assert spark.conf.get("spark.sql.session.timeZone") == "UTC"
    assert spark.conf.get("spark.driver.bindAddress") == "127.0.0.1"
    assert spark.conf.get("spark.sql.shuffle.partitions") == "2", "the caller's default goes before ours"
    assert os.environ["PYSPARK_PYTHON"] == sys.executable


def test_a_session_that_is_active_is_returned_as_it_is(spark: "SparkSession") -> None:
    again = spark_session("another", defaults={"spark.sql.session.timeZone": "Asia/Tokyo"})
    assert again.conf.get("spark.sql.session.timeZone") == "UTC"
