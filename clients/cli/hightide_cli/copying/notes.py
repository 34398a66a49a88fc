"""The notes of `hightide topic copy`: a small file for each copy, in the user's state directory."""

import hashlib
from pathlib import Path
from typing import Any, Final

from hightide_cli.command_line.json_files import read_json, write_json
from hightide_cli.copying.plan import CopyError, CopyNotes
from hightide_cli.printing.rendering import Json

VERSION: Final = 1
_PARTITIONS_MAX: Final = 10_000


def notes_path(copy_name: str) -> Path:
    """The default path of this copy's notes; the name itself never becomes a path."""
    from platformdirs import user_state_path

    digest = hashlib.sha256(copy_name.encode()).hexdigest()[:32]
    return user_state_path("hightide", appauthor=False) / "copies" / f"{digest}.json"


def load_notes(path: Path, copy_name: str) -> CopyNotes | None:
    """Read the notes; None if there is no file. Raises CopyError."""
    try:
        return _decoded(read_json(path), copy_name)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CopyError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise CopyError(
            f"{path} holds no notes of this copy ({error}): name the right file with --notes"
        ) from None


def store_notes(path: Path, copy_name: str, notes: CopyNotes) -> None:
    """Write the notes in one step; they are on the disk on return. Raises CopyError."""
    document: Json = {
        "version": VERSION,
        "copy": copy_name,
        "writer_version": notes.version,
        "bases": {str(partition): offset for partition, offset in sorted(notes.bases.items())},
        "finished": notes.is_finished,
        "noted_ms": notes.noted_ms,
    }
    try:
        write_json(path, document)
    except OSError as error:
        raise CopyError(f"{path} cannot be written: {error.strerror or error}") from error


def _decoded(document: Any, copy_name: str) -> CopyNotes:
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"version {VERSION} is expected")
    if document.get("copy") != copy_name:
        raise ValueError(f"they are of {document.get('copy')!r}")
    bases, numbers = document.get("bases"), (document.get("writer_version"), document.get("noted_ms"))
    if not isinstance(bases, dict) or len(bases) > _PARTITIONS_MAX:
        raise ValueError(f"offsets of up to {_PARTITIONS_MAX} partitions are expected")
    if not all(_is_natural(each) for each in (*numbers, *bases.values())):
        raise ValueError("numbers from 0 on are expected")
    version, noted_ms = numbers
    assert isinstance(version, int), "checked above"
    assert isinstance(noted_ms, int), "checked above"
    offsets = {int(partition): offset for partition, offset in bases.items()}
    return CopyNotes(version, offsets, document.get("finished") is True, noted_ms)


def _is_natural(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
