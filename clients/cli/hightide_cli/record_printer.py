"""Records become lines of output: what `hightide topic consume` does."""

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import islice
from typing import BinaryIO

from hightide import Consumer, Record, TopicPartition

from hightide_cli.output import yaml_text
from hightide_cli.positions import Anchor, Position
from hightide_cli.rendering import Json, bytes_field, json_line

_POLL_TIMEOUT_S = 0.5
_TOKEN = re.compile(r"%(.?)|\\(.?)|([^%\\]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}
_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % (record.timestamp_us // 1000),
    "k": lambda record: record.key or b"",
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "h": lambda record: b",".join(name.encode() + b"=" + value for name, value in record.headers),
    "%": lambda record: b"%",
}


class FormatError(ValueError):
    """A format names a field or an escape that there is not."""


class RecordPrinter:
    """Turns a record into the bytes to print. Values go out as they are, whatever bytes they hold."""

    def __init__(self, *, as_json: bool, form: str | None, as_yaml: bool = False) -> None:
        self._render: Callable[[Record], bytes]
        if as_json or as_yaml:
            self._render = _yaml_of if as_yaml else _json_of
        else:
            self._render = _value_of if form is None else _formatter(form)

    def render(self, record: Record) -> bytes:
        """Return one record as printed, with its end of line."""
        return self._render(record)


def consume_records(
    topic: str,
    printer: RecordPrinter,
    output: BinaryIO,
    *,
    bootstrap: str | None,
    position: Position,
    partitions: Sequence[int],
    records_max: int | None,
    exit_at_end: bool,
) -> None:
    """Print records until the end, the wanted number, or Ctrl-C, which is how following a topic ends."""
    with Consumer(bootstrap, offset_reset="error") as consumer:
        assigned = [TopicPartition(topic, each) for each in partitions] or consumer.partitions_for(topic)
        consumer.assign(assigned)
        _seek(consumer, assigned, position)
        batches = _to_end(consumer) if exit_at_end else _for_ever(consumer)
        records = (record for batch in batches for record in batch)
        try:
            for record in islice(records, records_max):
                output.write(printer.render(record))
                if not exit_at_end:
                    # Whoever follows a topic wants to see a record when it comes.
                    output.flush()
        except KeyboardInterrupt:
            pass
        output.flush()


def _to_end(consumer: Consumer) -> Iterator[Iterable[Record]]:
    yield consumer.read_to_end()


def _for_ever(consumer: Consumer) -> Iterator[Iterable[Record]]:
    while True:
        yield consumer.poll(timeout_s=_POLL_TIMEOUT_S)


def _seek(consumer: Consumer, assigned: Iterable[TopicPartition], position: Position) -> None:
    match position.anchor:
        case Anchor.EARLIEST:
            consumer.seek_to_beginning()
        case Anchor.LATEST:
            consumer.seek_to_end()
        case Anchor.TIMESTAMP:
            consumer.seek_to_timestamp(None, position.value)
        case Anchor.OFFSET:
            for partition in assigned:
                consumer.seek(partition, position.value)
        case Anchor.BEFORE_END:
            first = consumer.beginning_offsets(assigned)
            for partition, end in consumer.end_offsets(assigned).items():
                consumer.seek(partition, max(end - position.value, first[partition]))


def _value_of(record: Record) -> bytes:
    return (record.value or b"") + b"\n"


def _json_of(record: Record) -> bytes:
    return json_line(_document(record)).encode() + b"\n"


def _yaml_of(record: Record) -> bytes:
    return yaml_text(_document(record)).encode() + b"\n"


def _document(record: Record) -> dict[str, Json]:
    document: dict[str, Json] = {
        "topic": record.topic,
        "partition": record.partition,
        "offset": record.offset,
        "timestamp_us": record.timestamp_us,
        **bytes_field("key", record.key),
        **bytes_field("value", record.value),
    }
    if record.headers:
        document["headers"] = {name: value.decode(errors="replace") for name, value in record.headers}
    return document


def _constant(literal: bytes) -> Callable[[Record], bytes]:
    return lambda record: literal


def _formatter(form: str) -> Callable[[Record], bytes]:
    parts: list[Callable[[Record], bytes]] = []
    for match in _TOKEN.finditer(form):
        field, escape, text = match.groups()
        if field is not None:
            if field not in _FIELDS:
                raise FormatError(f"%{field} is no field; there are %" + ", %".join(_FIELDS))
            parts.append(_FIELDS[field])
        else:
            if escape is not None and escape not in _ESCAPES:
                raise FormatError(
                    f"\\{escape} is no escape; there are " + ", ".join(f"\\{each}" for each in _ESCAPES)
                )
            parts.append(_constant(_ESCAPES[escape] if escape is not None else text.encode()))
    return lambda record: b"".join([part(record) for part in parts])
