"""Records become lines of output: the text that `hightide topic consume`, `get` and `grep` print."""

import re
from collections.abc import Callable

import click
from hightide import Record

from hightide_cli.command_line.choices import OutputFormat
from hightide_cli.printing.output import yaml_text
from hightide_cli.printing.rendering import Json, bytes_field, json_line

_TOKEN = re.compile(r"%(.?)|\\(x[0-9a-fA-F]{2}|.?)|([^%\\]+)", re.DOTALL)
_ESCAPES = {"n": b"\n", "t": b"\t", "r": b"\r", "0": b"\0", "\\": b"\\"}


def _length(part: bytes | None) -> int:
    """The length, or -1 for a missing part, which differs from an empty one."""
    return -1 if part is None else len(part)


# The letters are kcat's; %v is ours, for what kcat calls the payload.
_FIELDS: dict[str, Callable[[Record], bytes]] = {
    "t": lambda record: record.topic.encode(),
    "p": lambda record: b"%d" % record.partition,
    "o": lambda record: b"%d" % record.offset,
    "T": lambda record: b"%d" % (record.timestamp_us // 1000),
    "k": lambda record: record.key or b"",
    "K": lambda record: b"%d" % _length(record.key),
    "v": lambda record: record.value or b"",
    "s": lambda record: record.value or b"",
    "S": lambda record: b"%d" % _length(record.value),
    "R": lambda record: _length(record.value).to_bytes(4, "big", signed=True),
    "h": lambda record: b",".join(b"%s=%s" % (name.encode(), value or b"") for name, value in record.headers),
    "%": lambda record: b"%",
}


class FormatError(ValueError):
    """A format names a field or an escape that does not exist."""


class RecordPrinter:
    """Turns a record into the bytes to print. Values are printed unchanged, whatever bytes they hold."""

    def __init__(self, *, as_json: bool, form: str | None, as_yaml: bool = False) -> None:
        self._render: Callable[[Record], bytes]
        if as_json or as_yaml:
            self._render = _yaml_of if as_yaml else _json_of
        else:
            self._render = _value_of if form is None else _formatter(form)

    def render(self, record: Record) -> bytes:
        """Return one record as printed, with its end of line."""
        return self._render(record)


def printer_of(ctx: click.Context, output: OutputFormat, form: str | None) -> RecordPrinter:
    """The printer for the options of the command line. Raises click.BadParameter."""
    try:
        return RecordPrinter(
            as_json=output is OutputFormat.JSON, as_yaml=output is OutputFormat.YAML, form=form
        )
    except FormatError as error:
        raise click.BadParameter(str(error), ctx, param_hint="--format") from error


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
        document["headers"] = {name: _header_text(value) for name, value in record.headers}
    return document


def _header_text(value: bytes | None) -> str | None:
    """The value of a header as text; null for a header without one."""
    return None if value is None else value.decode(errors="replace")


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
            parts.append(_constant(text.encode() if escape is None else _unescaped(escape)))
    return lambda record: b"".join([part(record) for part in parts])


def _unescaped(escape: str) -> bytes:
    if len(escape) > 1:
        return bytes.fromhex(escape[1:])
    if escape not in _ESCAPES:
        known = ", ".join(f"\\{each}" for each in (*_ESCAPES, "xHH"))
        raise FormatError(f"\\{escape} is no escape; there are {known}")
    return _ESCAPES[escape]
