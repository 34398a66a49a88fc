"""Reads the state of the current micro-batch from Spark's checkpoint of a stream.

Spark writes the offsets of a micro-batch before it runs it. They contain the topics' ids, which rows do not.
"""

from pathlib import Path

from hightide_spark.core import stream_offsets
from hightide_spark.errors import UnreadableOffsetsError
from hightide_spark.pipelines.errors import CheckpointError

_VERSION = "v1"
#: The line of the first source, after the version and Spark's notes on the micro-batch.
_SOURCE_AT = 2


def topic_ids(checkpoint: Path, batch_id: int) -> dict[str, str]:
    """The ids of the topics that a micro-batch reads, by name. The query has one source. The archive's driver
    calls it for each micro-batch. Raises CheckpointError."""
    path = checkpoint / "offsets" / str(batch_id)
    return read_topic_ids(path.read_text(), str(path))


def read_topic_ids(text: str, path: str) -> dict[str, str]:
    """The ids in the text of a file of offsets. `path` names it in errors. Raises CheckpointError."""
    lines = text.splitlines()
    if len(lines) != _SOURCE_AT + 1 or lines[0] != _VERSION:
        raise CheckpointError(
            f"{path} is not what Spark writes of a query with one source (version {_VERSION}); "
            "archive with a Spark that writes it: spark.sql.streaming.offsetLog.formatVersion=1"
        )
    try:
        offsets = stream_offsets.parse(lines[_SOURCE_AT])
    except UnreadableOffsetsError as error:
        raise CheckpointError(f"{path} is of another source: {error}") from error
    return {topic: each.topic_id for topic, each in offsets.items()}


def unfinished_batch(checkpoint: Path) -> int | None:
    """The number of the micro-batch that has begun and is not done, or None. The next run repeats it."""
    begun, done = (
        max((int(path.name) for path in (checkpoint / name).glob("[0-9]*")), default=-1)
        for name in ("offsets", "commits")
    )
    return begun if begun > done else None
