"""configuration.md, the clients' part: the arguments of the SDK's classes, and the options of Spark."""

import inspect
import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from hightide import Admin, Consumer, Producer
from hightide.consuming.consumer_settings import ConsumerSettings
from hightide.errors import InvalidArgumentError
from hightide.producing.producer_settings import ProducerSettings
from hightide_spark.core import sink_options, source_options
from hightide_spark.core.kafka_options import PREFIX
from hightide_spark.core.option_table import Option

from reference_pages.markdown import code, number, table

_SPARK_README = Path(__file__).resolve().parents[2] / "clients" / "spark" / "README.md"
_ROW = re.compile(r"^\| ((?:`[\w.]+`(?:, )?)+) \|\s*([^|]*?)\s*\|\s*([^|]*?)\s*\|\s*([^|]*?)\s*\|$", re.M)

_EVERYWHERE = {
    "bootstrap": "host:port of brokers, text with commas or a list; else `HIGHTIDE_BOOTSTRAP`, else "
    "`127.0.0.1:9092`.",
    "tls_ca": "The path of the certificates (PEM) of the CAs that may sign those of servers; it turns TLS "
    "on. Else `HIGHTIDE_TLS_CA`.",
    "tls_certificate": "The path of this client's certificate (PEM); else `HIGHTIDE_TLS_CERTIFICATE`.",
    "tls_key": "The path of its key (PEM, without a password); else `HIGHTIDE_TLS_KEY`.",
    "token": "A bearer token, as text or as a function that returns one: it is called when the last one is "
    "about to expire, and must be quick.",
    "token_file": "The path of a file with a bearer token, which is read again when it changes; else "
    "`HIGHTIDE_TOKEN_FILE`.",
    "client_id": "Names this client to the servers: it is in the user agent of its calls.",
    "request_timeout_ms": "How long one request may take.",
}
_REPORTS = {
    "on_error": "Called with a `CallFailure` when a call failed that the client tries again; for those that "
    "are alike, once a second at most.",
    "on_statistics": "Called with `ProducerStatistics` or `ConsumerStatistics`.",
    "statistics_interval_ms": "How often; 100 to 86,400,000.",
}
_PRODUCER = {
    **_EVERYWHERE,
    **_REPORTS,
    "acks": '`"all"`: every in-sync replica has the record; 1: the leader has it; 0: the producer '
    "waits for no answer.",
    "linger_ms": "How long a batch that is not full waits for more records when nothing is in flight. "
    "One of 256 KiB or more leaves a millisecond after its last record.",
    "batch_bytes_max": "The size at which a batch is sent. One of rows of a table may be a quarter larger.",
    "buffer_memory_bytes": "How many bytes may wait for acknowledgement before `send()` blocks.",
    "compression": 'How batches are compressed: `"lz4"`, `"zstd"`, or `None`.',
    "idempotent": "Whether batches carry sequences, so that a retry writes nothing twice.",
    "delivery_timeout_ms": "The time in which a record is acknowledged, or fails.",
    "max_block_ms": "How long `send()` blocks at most before it raises an error, and never longer than "
    "`delivery_timeout_ms`.",
    "partitioner": 'How the partition of a record with a key is chosen: `"crc32c"`, `"murmur2"` as in '
    'Kafka\'s Java client, `"crc32"` as in librdkafka, or a function of topic, key and number of '
    "partitions.",
    "key": "Names a writer that continues in another process: see `ProducerKey`.",
}
_CONSUMER = {
    **_EVERYWHERE,
    **_REPORTS,
    "topics": "What to read: one name, several, or in a group a mapping of name to number of streams.",
    "group": "The consumer group to be a member of.",
    "pattern": "In a group, instead of `topics`: an RE2 expression for whole topic names.",
    "pattern_streams": "The number of streams for topics that match the pattern.",
    "exclude": "With `pattern`: RE2 expressions of topics to leave out.",
    "consumer_id": "This consumer's name, unique in its group; by default the coordinator makes one.",
    "instance_id": "A name that keeps its partitions over a restart within the session timeout.",
    "auto_commit": "Whether the consumer commits its positions, at the latest when it closes.",
    "commit_interval_ms": "The longest time between two such commits.",
    "session_timeout_ms": "A member that does not answer for so long counts as dead, and others get its "
    "partitions.",
    "assignor": '`"sticky"`, `"range"` or `"roundrobin"`; a group uses the one that most of its members '
    "name.",
    "on_assign": "Called with partitions before the first record of them.",
    "on_revoke": "Called with partitions before they are given back.",
    "on_lost": "Called with partitions that others got before this consumer had given them back.",
    "offset_reset": 'Where to continue if an offset does not exist: `"earliest"`, `"latest"`, or `"error"`.',
    "fetch_max_bytes": "The most bytes of one fetch, unless one batch is larger.",
    "fetch_max_wait_ms": "How long a broker holds a fetch while there is less than `fetch_min_bytes`.",
    "fetch_min_bytes": "The bytes for which a broker waits before it answers.",
    "prefetch_bytes": "The most bytes that are read ahead of the program.",
    "check_crcs": "Whether each batch's CRC-32C is checked.",
    "on_corrupt_batch": 'What to do with a batch that no reader can open: `"fail"`, or `"skip"` and count '
    "it.",
    "unavailable_timeout_ms": "How long brokers or leaders may not answer until the consumer raises an "
    "error.",
}
_ADMIN = {**_EVERYWHERE, "timeout_ms": "How long an operation is tried in all."}


def sdk_sections() -> list[str]:
    """The arguments of `Producer`, `Consumer` and `Admin`; `hightide.aio` has the same."""
    return [
        _section("Producer", Producer, _PRODUCER, ProducerSettings()),
        _section("Consumer", Consumer, _CONSUMER, ConsumerSettings()),
        _section("Admin", Admin, _ADMIN, None),
    ]


def _section(title: str, client: type, meanings: Mapping[str, str], settings: Any) -> str:
    arguments = {
        name: argument for name, argument in inspect.signature(client).parameters.items() if name != "self"
    }
    missing = arguments.keys() - meanings.keys() | (meanings.keys() - _EVERYWHERE.keys()) - arguments.keys()
    assert not missing, f"{title}: {sorted(missing)}"
    rows = [
        (code(name), _default(argument.default), _bounds(settings, name), meanings[name])
        for name, argument in arguments.items()
    ]
    return f"### `{title}`\n\n" + table(("argument", "default", "values", "meaning"), rows)


def _default(value: object) -> str:
    if value is None:
        return ""
    return code(f'"{value}"' if isinstance(value, str) else value)


def _bounds(settings: Any, name: str) -> str:
    """What the settings themselves say of a value that cannot be used."""
    value = getattr(settings, name, None)
    if settings is None or isinstance(value, bool) or not isinstance(value, int | float):
        return ""
    try:
        replace(settings, **{name: -1})
    except InvalidArgumentError as error:
        refusal = str(error)
    else:
        raise AssertionError(f"{name} may be -1")
    found = re.search(r"it may be (-?\d+) to (\d+)", refusal)
    assert found is not None, refusal
    return f"{number(int(found[1]))} to {number(int(found[2]))}"


def spark_section() -> str:
    """The options of reads and writes. What they mean stands in the room's README; the names are held to the
    code."""
    text = _SPARK_README.read_text()
    reads, writes = (
        _ROW.findall(text[text.index(f"| option of {kind}") :].partition("\n\n")[0])
        for kind in ("reads", "writes")
    )
    parts = []
    for title, module, rows in (
        ("Reading with Spark", source_options, reads),
        ("Writing with Spark", sink_options, writes),
    ):
        named = {name for names, *_ in rows for name in re.findall(r"`([^`]+)`", names)}
        differing = named ^ _options_of(module)
        assert not differing, f"{title}: {sorted(differing)}"
        parts.append(f"### {title}\n\n" + table(("option", "default", "for", "meaning"), rows))
    return "\n\n".join(parts).replace("see below", "see [Reading](../../clients/spark/README.md#reading)")


def _options_of(module: Any) -> set[str]:
    tables = (module._BATCH, module._STREAM)
    found: set[str] = set()
    for each in tables:
        options: tuple[Option[Any], ...] = each._options
        # Kafka's names have a table of their own.
        found.update(option.name for option in options if not option.name.startswith(PREFIX))
    return found
