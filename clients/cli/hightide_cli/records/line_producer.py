"""Lines of standard input become records: the work of `hightide topic produce`."""

import base64
import binascii
import json
import os
import stat
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import BinaryIO, Literal, cast

import click
from hightide import Delivery, HightideError, Producer

from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.printing.progress import WorkDone, progress
from hightide_cli.printing.rendering import Json

Headers = tuple[tuple[str, bytes], ...]

# A bar costs more than a line.
_TELL_EVERY_BYTES = 64 << 10


@dataclass(frozen=True, slots=True)
class LineForm:
    """The form of the lines."""

    key: bytes | None = None
    key_separator: bytes | None = None
    headers: Headers = ()
    partition: int | None = None
    as_json: bool = False


@dataclass(frozen=True, slots=True)
class LineRecord:
    """The content of one line."""

    value: bytes | None
    key: bytes | None
    headers: Headers
    partition: int | None
    timestamp_us: int | None = None


@dataclass(slots=True)
class Outcome:
    """The acknowledged records; filled by the producer's callbacks, read after the producer is closed."""

    topic: str
    records: int = 0
    failed: int = 0
    first_error: HightideError | None = None
    offsets: dict[int, tuple[int, int]] = field(default_factory=dict)

    def take(self, delivery: Delivery) -> None:
        """Note the outcome of one record."""
        error = delivery.exception(0)
        if error is not None:
            self.failed += 1
            self.first_error = self.first_error or error
            return
        self.records += 1
        at = delivery.result(0)
        first, last = self.offsets.get(at.partition, (at.offset, at.offset))
        self.offsets[at.partition] = (min(first, at.offset), max(last, at.offset))

    def sentence(self) -> str:
        """Say where the records were written."""
        places = ", ".join(
            f"partition {partition} offset {first}" + (f" to {last}" if last > first else "")
            for partition, (first, last) in sorted(self.offsets.items())
        )
        noun = "record" if self.records == 1 else "records"
        return f"produced {self.records} {noun} to {self.topic}" + (f": {places}" if places else "")

    def document(self) -> dict[str, Json]:
        """Say the same for programs."""
        partitions: list[Json] = [
            {"partition": partition, "first_offset": first, "last_offset": last}
            for partition, (first, last) in sorted(self.offsets.items())
        ]
        return {"topic": self.topic, "records": self.records, "partitions": partitions}


@contextmanager
def lines_of(file: BinaryIO, topic: str) -> Iterator[Iterable[bytes]]:
    """The lines of a file, with a bar if its size is known; those of a pipe, as they come."""
    try:
        status = os.fstat(file.fileno())
    except OSError:
        # An object without a file descriptor is not a file of the system.
        status = None
    if status is None or not stat.S_ISREG(status.st_mode):
        yield file
        return
    with progress(f"writing {topic}", status.st_size, "bytes") as done:
        yield _told(file, done)


def _told(file: BinaryIO, done: WorkDone) -> Iterator[bytes]:
    read_bytes = 0
    for line in file:
        read_bytes += len(line)
        if read_bytes >= _TELL_EVERY_BYTES:
            done.advance(read_bytes)
            read_bytes = 0
        yield line


def produce_lines(
    lines: Iterable[bytes],
    topic: str,
    form: LineForm,
    *,
    cluster: ClientArguments,
    acks: str,
    compression: str,
) -> Outcome:
    """Send every line and wait until all are acknowledged.

    Raises click.ClickException for a line that cannot be read, which names its number (the lines before it
    are delivered), and the first error of a record that was not delivered. What was written before a failure
    or Ctrl-C is told on stderr.
    """
    outcome = Outcome(topic)
    try:
        with Producer(
            **cluster,
            acks="all" if acks == "all" else 0 if acks == "0" else 1,
            idempotent=acks == "all",
            compression=cast(Literal["lz4", "zstd"], compression) if compression != "none" else None,
        ) as producer:
            for number, line in enumerate(lines, 1):
                record = read_line(line, number, form)
                delivery = producer.send(
                    topic,
                    record.value,
                    record.key,
                    partition=record.partition,
                    timestamp_us=record.timestamp_us,
                    headers=record.headers or None,
                )
                delivery.add_done_callback(outcome.take)
        if outcome.first_error is not None:
            raise outcome.first_error
    except BaseException:
        if outcome.failed:
            click.echo(f"{outcome.failed} records were not delivered; {outcome.sentence()}", err=True)
        elif outcome.records:
            click.echo(outcome.sentence(), err=True)
        raise
    return outcome


def read_line(line: bytes, number: int, form: LineForm) -> LineRecord:
    """Read one line as a record. Raises click.ClickException, which names the line's number."""
    line = line.removesuffix(b"\n").removesuffix(b"\r")
    if form.as_json:
        return _read_json(line, number, form)
    if form.key_separator is None:
        return LineRecord(line, form.key, form.headers, form.partition)
    key, separator, value = line.partition(form.key_separator)
    if not separator:
        wanted = form.key_separator.decode(errors="replace")
        raise click.ClickException(f"line {number} has no key: it does not contain the separator {wanted!r}")
    return LineRecord(value, key, form.headers, form.partition)


def _read_json(line: bytes, number: int, form: LineForm) -> LineRecord:
    try:
        fields = json.loads(line)
        if not isinstance(fields, dict):
            raise TypeError("it is not an object")
        if "value" not in fields and fields.get("value_base64") is None:
            raise TypeError('it has neither "value" nor "value_base64"; "value": null deletes a key')
        headers = tuple(
            (name, _bytes_of_json(value) or b"") for name, value in (fields.get("headers") or {}).items()
        )
        partition = fields.get("partition") if form.partition is None else form.partition
        timestamp_us = fields.get("timestamp_us")
        for name, number_given in (("partition", partition), ("timestamp_us", timestamp_us)):
            if number_given is not None and type(number_given) is not int:
                raise TypeError(f"{name} is not a whole number")
        return LineRecord(
            _bytes_of(fields, "value"),
            _bytes_of(fields, "key") if form.key is None else form.key,
            form.headers + headers,
            partition,
            timestamp_us,
        )
    except (ValueError, TypeError, AttributeError, RecursionError, binascii.Error) as error:
        raise click.ClickException(f"line {number} is not a record in JSON: {error}") from error


def _bytes_of(fields: dict[str, object], name: str) -> bytes | None:
    encoded = fields.get(f"{name}_base64")
    if encoded is None:
        return _bytes_of_json(fields.get(name))
    if not isinstance(encoded, str):
        raise TypeError(f"{name}_base64 is no text")
    return base64.b64decode(encoded, validate=True)


def _bytes_of_json(value: object) -> bytes | None:
    """Text as it is, null as nothing, and anything else as JSON."""
    if value is None:
        return None
    return value.encode() if isinstance(value, str) else json.dumps(value).encode()
