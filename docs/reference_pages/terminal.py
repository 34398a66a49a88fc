"""The picture of a terminal in the README, drawn from a recorded session.

To record another one: start a cluster with `hightide dev up`, let `hightide topic produce` write to a topic,
kill a broker, and put the commands and the output of `hightide trace show --last` into the text file.
"""

from html import escape
from pathlib import Path
from typing import Final

RECORDED: Final = Path(__file__).resolve().parents[1] / "pictures" / "failover-terminal.txt"

#: Characters of a line that are drawn; what is beyond them is left out.
_COLUMNS: Final = 108
_CHARACTER_PX, _LINE_PX, _MARGIN_PX, _BAR_PX = 7.2, 17, 16, 28
_TITLE: Final = "A terminal: a broker is killed, and hightide trace show draws the failover"
_STYLE: Final = """
text{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;
fill:#c9d1d9;white-space:pre}
.p{fill:#7ee787}.h{fill:#8b949e}.b{fill:#58a6ff}.r{fill:#ffa657;font-weight:600}
"""


def text() -> str:
    """Return the session as SVG."""
    lines = RECORDED.read_text().splitlines()
    width = round(_COLUMNS * _CHARACTER_PX + 2 * _MARGIN_PX)
    height = _BAR_PX + len(lines) * _LINE_PX + 2 * _MARGIN_PX
    dots = "".join(
        f'<circle cx="{18 + 18 * at}" cy="15" r="5.5" fill="{colour}"/>'
        for at, colour in enumerate(("#ff5f57", "#febc2e", "#28c840"))
    )
    drawn = "".join(
        _line(line, _BAR_PX + _MARGIN_PX + at * _LINE_PX + 8) for at, line in enumerate(lines) if line.strip()
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" '
        f'height="{height}" role="img" aria-label="{_TITLE}">\n<title>{_TITLE}</title>\n'
        f"<style>{_STYLE}</style>\n"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>\n{dots}\n{drawn}</svg>\n'
    )


def _line(line: str, y: int) -> str:
    """Draw each run of one colour at its column, so that bars stay in place whatever font there is."""
    shown = line if len(line) <= _COLUMNS else line[: _COLUMNS - 1] + "…"
    return "".join(
        f'<text class="{kind}" x="{_MARGIN_PX + column * _CHARACTER_PX:g}" y="{y}" '
        f'textLength="{len(run) * _CHARACTER_PX:g}">{escape(run)}</text>\n'
        for kind, column, run in _runs(shown)
    )


def _runs(line: str) -> list[tuple[str, int, str]]:
    """The words of a line, each run of them with its colour and column; gaps of two spaces divide them."""
    whole = (
        "p" if line.startswith("$ ") else "r" if line.startswith(("unavailable", "clients waited")) else ""
    )
    if whole:
        return [(whole, 0, line)]
    is_heading = line.startswith("SPAN ")
    runs, column = [], 0
    for run in line.replace("  ", "\0\0").split("\0"):
        left = len(run) - len(run.lstrip())
        if run.strip():
            kind = "h" if is_heading else "b" if run.strip()[0] in "█▏" else "t"
            runs.append((kind, column + left, run.strip()))
        column += len(run) + 1
    return runs
