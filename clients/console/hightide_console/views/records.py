"""Records as people read them: JSON, text or bytes in hexadecimal, whatever is in them. Pure.

Nothing of a record is markup, moves the cursor, turns the direction of writing or is longer than a page:
bytes that are no printable text are shown as what they are.
"""

import json
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hightide import Record

from hightide_console.settings import SHOWN_BYTES_MAX
from hightide_console.views import figures

_JSON_BYTES_MAX: Final = 64 << 10
_HEADERS_MAX: Final = 50
#: A short document stays on one line, so that many of them are on one page.
_LINE_MAX: Final = 240
_HEX_BYTES_MAX: Final = 512
_HEX_COLUMNS: Final = 16
_SPACES: Final = "\n\t "


class Form(Enum):
    """How bytes are shown. AUTO takes JSON where they are JSON, else text where they are text, else hex."""

    AUTO = "auto"
    JSON = "json"
    TEXT = "text"
    HEX = "hex"


@dataclass(frozen=True, slots=True)
class Shown:
    """One key, value or header as it is shown. `kind` is json, text, hex, or none for what is missing; `cut`
    is how many bytes are not shown."""

    text: str
    kind: str
    size_bytes: int
    cut: int = 0

    @property
    def is_missing(self) -> bool:
        """Whether there is nothing, which is not the same as no bytes."""
        return self.kind == "none"


@dataclass(frozen=True, slots=True)
class RecordView:
    """One record of a page."""

    topic: str
    partition: int
    offset: int
    timestamp: str
    key: Shown
    value: Shown
    headers: tuple[tuple[str, Shown], ...]
    more_headers: int = 0


def record_view(record: Record, form: Form = Form.AUTO, bytes_max: int = SHOWN_BYTES_MAX) -> RecordView:
    """One record, with at most `bytes_max` of its value."""
    return RecordView(
        record.topic,
        record.partition,
        record.offset,
        figures.moment(record.timestamp_us / 1000),
        shown(record.key, form if form is Form.HEX else Form.TEXT, min(bytes_max, 512)),
        shown(record.value, form, bytes_max),
        tuple(
            (safe_text(name[:200]), shown(value, Form.HEX if form is Form.HEX else Form.TEXT, 256))
            for name, value in record.headers[:_HEADERS_MAX]
        ),
        max(0, len(record.headers) - _HEADERS_MAX),
    )


def shown(content: bytes | None, form: Form = Form.AUTO, bytes_max: int = SHOWN_BYTES_MAX) -> Shown:
    """Some bytes, in this form as far as they have it: what is no text is shown in hexadecimal."""
    if content is None:
        return Shown("", "none", 0)
    if form in (Form.AUTO, Form.JSON) and (pretty := _as_json(content)) is not None:
        return Shown(pretty[:bytes_max], "json", len(content), max(0, len(pretty) - bytes_max))
    if form is not Form.HEX and (text := _as_text(content, bytes_max)) is not None:
        return Shown(text, "text", len(content), max(0, len(content) - bytes_max))
    seen = content[: min(bytes_max, _HEX_BYTES_MAX)]
    return Shown(_hex_dump(seen), "hex", len(content), len(content) - len(seen))


def safe_text(text: str) -> str:
    """The same text with everything invisible written as its escape, but for spaces, tabs and ends of
    line."""
    if text.isprintable():
        return text
    return "".join(each if each.isprintable() or each in _SPACES else ascii(each)[1:-1] for each in text)


def _as_json(content: bytes) -> str | None:
    """Objects and lists, laid out; None for what is no JSON, or longer than somebody reads."""
    if len(content) > _JSON_BYTES_MAX or content.lstrip()[:1] not in (b"{", b"["):
        return None
    try:
        found = json.loads(content)
        line = json.dumps(found, ensure_ascii=False)
        return safe_text(line if len(line) <= _LINE_MAX else json.dumps(found, ensure_ascii=False, indent=2))
    except (ValueError, RecursionError):
        return None


def _as_text(content: bytes, bytes_max: int) -> str | None:
    """The beginning of a text, or None where that is none. A character that the cut tears is left out."""
    is_cut = len(content) > bytes_max
    head = content[:bytes_max]
    for torn in range(4 if is_cut else 1):
        try:
            text = head[: len(head) - torn].decode()
        except UnicodeDecodeError:
            continue
        unprintable = sum(not each.isprintable() and each not in _SPACES and each != "\r" for each in text)
        # A text may have a control character; what is full of them is no text.
        return safe_text(text) if unprintable * 10 <= len(text) else None
    return None


def _hex_dump(content: bytes) -> str:
    lines = []
    for at in range(0, len(content), _HEX_COLUMNS):
        part = content[at : at + _HEX_COLUMNS]
        digits = " ".join(f"{byte:02x}" for byte in part).ljust(_HEX_COLUMNS * 3 - 1)
        signs = "".join(chr(byte) if 32 <= byte < 127 else "." for byte in part)
        lines.append(f"{at:04x}  {digits}  {signs}")
    return "\n".join(lines)
