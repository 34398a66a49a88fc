"""The small files that the command keeps for its user: JSON, read up to a bound and written in one step."""

import json
import os
import tempfile
from pathlib import Path
from typing import Any, Final

from hightide_cli.printing.rendering import Json

FILE_BYTES_MAX: Final = 1 << 20


def read_json(path: Path) -> Any:
    """The content of a file. Raises OSError, and ValueError or RecursionError if it is too long or not
    JSON."""
    with path.open("rb") as file:
        text = file.read(FILE_BYTES_MAX + 1)
    if len(text) > FILE_BYTES_MAX:
        raise ValueError(f"more than {FILE_BYTES_MAX} bytes")
    return json.loads(text)


def write_json(path: Path, document: Json) -> None:
    """Write a file that the user alone can read; it is on the disk on return. Raises OSError."""
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    # mkstemp opens with 0600, and a crash leaves the old file as it was.
    descriptor, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump(document, file, indent=2, ensure_ascii=False)
            file.write("\n")
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise
