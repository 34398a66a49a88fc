"""The notes of `hightide topic copy`: a small file for each copy, in the user's state directory."""

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from hightide_cli.copy_plan import CopyError, CopyNotes

VERSION: Final = 1
_FILE_BYTES_MAX: Final = 1 << 20
_PARTITIONS_MAX: Final = 10_000


def notes_path(copy_name: str) -> Path:
    """Where the notes of this copy are kept unless said; the name never becomes a path."""
    from platformdirs import user_state_path

    digest = hashlib.sha256(copy_name.encode()).hexdigest()[:32]
    return user_state_path("hightide", appauthor=False) / "copies" / f"{digest}.json"


def load_notes(path: Path, copy_name: str) -> CopyNotes | None:
    """Read them; None where there is no file. Raises CopyError."""
    try:
        with path.open("rb") as file:
            text = file.read(_FILE_BYTES_MAX + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise CopyError(f"{path} cannot be read: {error.strerror or error}") from error
    try:
        if len(text) > _FILE_BYTES_MAX:
            raise ValueError(f"more than {_FILE_BYTES_MAX} bytes")
        return _decoded(json.loads(text), copy_name)
    except (ValueError, RecursionError) as error:
        raise CopyError(
            f"{path} holds no notes of this copy ({error}): name the right file with --notes"
        ) from None


def store_notes(path: Path, copy_name: str, notes: CopyNotes) -> None:
    """Write them in one go, and to the disk before it returns. Raises CopyError."""
    document = {
        "version": VERSION,
        "copy": copy_name,
        "writer_version": notes.version,
        "bases": {str(partition): offset for partition, offset in sorted(notes.bases.items())},
        "finished": notes.is_finished,
        "noted_ms": notes.noted_ms,
    }
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=".notes-")
        try:
            with os.fdopen(descriptor, "w", encoding="utf-8") as file:
                json.dump(document, file, indent=2)
                file.flush()
                os.fsync(file.fileno())
            os.replace(temporary, path)
        except BaseException:
            Path(temporary).unlink(missing_ok=True)
            raise
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
