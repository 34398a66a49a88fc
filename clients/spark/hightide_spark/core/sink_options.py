"""The options of writes. `topic` has the name and the meaning of Spark's Kafka sink.

`delivery` is exactly-once unless at-least-once is given. Each batch write stands alone, and is exactly once
over the retries of its tasks. With `txnAppId` and `txnVersion` (as of Delta), a repeated write, such as in a
`foreachBatch` after a crash, writes only the missing rows. A stream needs neither: it has an id and numbers
its micro-batches itself.

Exactly once lasts as long as brokers remember a producer: for a day after its last row, or for an hour if
100,000 others wrote to that log partition since. A write that is repeated later than that is written again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from hightide_spark.core.cluster_options import CLUSTER_OPTIONS, Cluster, cluster_of
from hightide_spark.core.kafka_options import foreign_options
from hightide_spark.core.option_table import Option, OptionTable, integer, one_of, text
from hightide_spark.errors import ContradictingOptionsError, OptionError

EXACTLY_ONCE: Final = "exactly-once"
AT_LEAST_ONCE: Final = "at-least-once"

TOPIC: Final[Option[str | None]] = Option("topic", text, None)
DELIVERY: Final = Option("delivery", one_of(EXACTLY_ONCE, AT_LEAST_ONCE), EXACTLY_ONCE)
TXN_APP_ID: Final[Option[str | None]] = Option("txnAppId", text, None)
TXN_VERSION: Final[Option[int | None]] = Option("txnVersion", integer(0, (1 << 63) - 1), None)

COMPRESSION: Final = Option(
    "kafka.compression.type", one_of("none", "uncompressed", "gzip", "snappy", "lz4", "zstd"), "none"
)
DELIVERY_TIMEOUT_MS: Final = Option("kafka.delivery.timeout.ms", integer(1, (1 << 31) - 1), 120_000)

_OPTIONS: Final = (*CLUSTER_OPTIONS, TOPIC, DELIVERY, COMPRESSION, DELIVERY_TIMEOUT_MS)
_COMPRESSIONS: Final[Mapping[str, Literal["lz4", "zstd"]]] = {"lz4": "lz4", "zstd": "zstd"}
# Names that Spark adds to the options of a stream.
_IGNORED: Final = ("checkpointLocation", "path", "queryName")
_NO_TXN: Final = dict.fromkeys(
    (TXN_APP_ID.name, TXN_VERSION.name),
    "a stream has an id and numbers its micro-batches by itself; leave it out",
)
_FOREIGN: Final = foreign_options("writes")
_BATCH: Final = OptionTable(
    "a write to hightide", (*_OPTIONS, TXN_APP_ID, TXN_VERSION), ignored=_IGNORED, foreign=_FOREIGN
)
_STREAM: Final = OptionTable(
    "a streaming write to hightide", _OPTIONS, ignored=_IGNORED, instead=_NO_TXN, foreign=_FOREIGN
)


class UnsupportedModeError(OptionError):
    """A save mode other than append: a log can only be appended to."""


@dataclass(frozen=True, slots=True)
class WriteOptions:
    """The options of one write. Without a `topic` each row names its own; `txn` is an id and a version.
    `warnings` say which options of Kafka are ignored, and why."""

    cluster: Cluster
    topic: str | None
    is_exactly_once: bool
    txn: tuple[str, int] | None
    compression: Literal["lz4", "zstd"] | None = None
    delivery_timeout_ms: int = DELIVERY_TIMEOUT_MS.default
    warnings: tuple[str, ...] = ()


def write_options(given: Mapping[str, str], *, is_streaming: bool, overwrite: bool) -> WriteOptions:
    """The options of a write. Raises OptionError."""
    if overwrite:
        raise UnsupportedModeError(
            "a topic cannot be overwritten; write with outputMode append, not complete"
            if is_streaming
            else 'a topic cannot be overwritten; write with mode("append")'
        )
    values = (_STREAM if is_streaming else _BATCH).read(given)
    app_id, version = values[TXN_APP_ID], values[TXN_VERSION]
    is_exactly_once = values[DELIVERY] == EXACTLY_ONCE
    if (app_id is None) != (version is None):
        there, missing = (TXN_APP_ID, TXN_VERSION) if version is None else (TXN_VERSION, TXN_APP_ID)
        raise ContradictingOptionsError(f"option {there.name} is given without {missing.name}; give both")
    if app_id is not None and not is_exactly_once:
        raise ContradictingOptionsError(
            f"options {TXN_APP_ID.name} and {TXN_VERSION.name} have no meaning with delivery={AT_LEAST_ONCE}"
        )
    txn = None if app_id is None or version is None else (app_id, version)
    compression = values[COMPRESSION]
    warnings = values.warnings
    if compression in ("gzip", "snappy"):
        warnings += (
            f"{COMPRESSION.name}={compression} is ignored: the rows are not compressed; give lz4 or zstd",
        )
    return WriteOptions(
        cluster_of(values),
        values[TOPIC],
        is_exactly_once,
        txn,
        _COMPRESSIONS.get(compression),
        values[DELIVERY_TIMEOUT_MS],
        warnings,
    )
