"""Write docs/reference/ from the code, a table of docs/spark.md, and the picture of a terminal: `make docs`.

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
    kafka_options,
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
# Tables in pages that are written by hand, each between two marks.
TABLES: dict[str, Callable[[], str]] = {"../spark.md": kafka_options.text}
BEGIN, END = "<!-- Made by `make docs` from the code: -->\n", "\n<!-- Here ends what is made. -->"


def with_table(page: str, fresh: str) -> str:
    """The page with a fresh table between its marks."""
    before, begin, rest = page.partition(BEGIN)
    _, end, after = rest.partition(END)
    assert begin, "the page has a mark where the table begins"
    assert end, "the page has a mark where the table ends"
    return f"{before}{begin}{fresh}{end}{after}"


def main(arguments: list[str]) -> int:
    """Write the pages, or say which are out of date."""
    stale = []
    for name, text in {**PAGES, **PICTURES, **TABLES}.items():
        path = REFERENCE / name
        fresh = with_table(path.read_text(), text()) if name in TABLES else text()
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
