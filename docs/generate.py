"""Write docs/reference/ from the code, and the picture of a terminal from a recorded session: `make docs`.

With --check it writes nothing, and exits with 1 if a file is out of date.
"""

import os
import sys
from collections.abc import Callable
from pathlib import Path

# The help of commands must not depend on who makes it.
for name in [name for name in os.environ if name.startswith(("HIGHTIDE_", "OTEL_"))]:
    del os.environ[name]

from reference_pages import (  # noqa: E402
    access,
    cli,
    configuration,
    errors,
    json_output,
    metrics,
    states,
    terminal,
    traces,
    znodes,
)

REFERENCE = Path(__file__).resolve().parent / "reference"
PICTURES: dict[str, Callable[[], str]] = {"../pictures/failover-terminal.svg": terminal.text}
PAGES: dict[str, Callable[[], str]] = {
    "access.md": access.text,
    "configuration.md": configuration.text,
    "errors.md": errors.text,
    "cli.md": cli.text,
    "json-output.md": json_output.text,
    "metrics.md": metrics.text,
    "states.md": states.text,
    "traces.md": traces.text,
    "znodes.md": znodes.text,
}


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are out of date."""
    stale = []
    for name, text in {**PAGES, **PICTURES}.items():
        path = REFERENCE / name
        fresh = text()
        if path.exists() and path.read_text() == fresh:
            continue
        stale.append(name)
        if "--check" not in arguments:
            path.write_text(fresh)
    unknown = sorted(path.name for path in REFERENCE.iterdir() if path.name not in PAGES)
    for name in unknown:
        print(f"{REFERENCE.name}/{name} is made by nothing; remove it")
    if "--check" not in arguments:
        return 0
    for name in stale:
        print(f"{REFERENCE.name}/{name} is not what the code says; run `make docs`")
    return 1 if stale or unknown else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
