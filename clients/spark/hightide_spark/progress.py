"""Publishing what streams have read to the consumer group that their option `groupId` names."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def publish_progress(session: "SparkSession") -> None:
    """Publish the progress of all queries of the session. `spark_session` calls it for what it makes."""
