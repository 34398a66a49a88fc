"""A trace as one HTML page: inline SVG, no script, nothing from elsewhere, light and dark.

All text from files is escaped. Each bar shows all that is known of its span when one points at it; a table
below the picture has the same, for those who cannot point.
"""

from html import escape
from typing import Final

from hightide_cli.trace.picture import Picture, Row

_WIDTH: Final = 1120
_LABELS: Final = 296
_CHART: Final = 716
_ROW: Final = 22
_HEAD: Final = 58
_BAR: Final = 12
_LIGHT: Final = ("#2a6fd6", "#e2622e", "#16996b", "#8556cf", "#b98500", "#d0458c", "#0b8aa0", "#7a5c3e")
_DARK: Final = ("#5b9df5", "#ff8d5c", "#37c996", "#ab8af0", "#eabb45", "#f27bb6", "#3cc0d4", "#c19d78")

_STYLE: Final = """
:root{color-scheme:light dark;--paper:#fff;--ink:#1c2530;--soft:#5b6673;--line:#dfe4ea;
--band:#f6f8fa;--part:#2a6fd6}
@media(prefers-color-scheme:dark){:root{--paper:#12161c;--ink:#e6ebf1;--soft:#98a4b3;
--line:#2c3540;--band:#191f27;--part:#5b9df5}}
body{margin:32px auto;max-width:1120px;padding:0 16px;background:var(--paper);color:var(--ink);
font:15px/1.5 system-ui,-apple-system,"Segoe UI",Roboto,sans-serif}
h1{font-size:21px;margin:0 0 6px}.s{font-size:17px;margin:0 0 6px}
.f{color:var(--soft);font-size:13px;margin:0 0 18px}
.k{display:flex;flex-wrap:wrap;gap:6px 18px;font-size:13px;color:var(--soft);margin:0 0 10px;
padding:0;list-style:none}
.k i{display:inline-block;width:11px;height:11px;border-radius:3px;margin-right:6px;vertical-align:-1px}
svg{display:block;width:100%;height:auto}text{fill:var(--ink);font-size:12.5px}
.q{fill:var(--soft);font-size:11.5px}.m{text-anchor:middle}.r{text-anchor:end}.b{fill:var(--band)}
.l{stroke:var(--line)}.d{stroke:var(--part);stroke-dasharray:2 3;opacity:.55}.g{fill:var(--part)}
.n{fill:none;stroke:var(--soft)}.x{stroke:#d33;stroke-width:2}
details{margin-top:18px;font-size:13px}summary{cursor:pointer;color:var(--soft)}
table{border-collapse:collapse;margin-top:8px;width:100%}
td{border-top:1px solid var(--line);padding:4px 10px 4px 0;vertical-align:top;
white-space:pre-wrap;overflow-wrap:anywhere}
"""


def page_of(picture: Picture) -> str:
    """Return the page. Called for `trace show --html`."""
    sentence = f'<p class="s">{escape(picture.sentence)}</p>' if picture.sentence else ""
    keys = "".join(
        f'<li><i style="background:var(--c{number % len(_LIGHT)})"></i>{escape(name)}</li>'
        for number, name in enumerate(picture.processes)
    )
    more = f'<p class="f">{picture.left_out} more spans are not drawn.</p>' if picture.left_out else ""
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escape(picture.title)}</title><style>{_STYLE}{_colours()}</style></head><body>"
        f'<h1>{escape(picture.title)}</h1>{sentence}<p class="f">{escape(picture.facts)}</p>'
        f'<ul class="k">{keys}</ul>{svg_of(picture)}{more}{_table(picture)}</body></html>\n'
    )


def _colours() -> str:
    light = "".join(f"--c{at}:{colour};" for at, colour in enumerate(_LIGHT))
    dark = "".join(f"--c{at}:{colour};" for at, colour in enumerate(_DARK))
    fills = "".join(f".c{at}{{fill:var(--c{at})}}" for at in range(len(_LIGHT)))
    return f":root{{{light}}}@media(prefers-color-scheme:dark){{:root{{{dark}}}}}{fills}\n"


def svg_of(picture: Picture) -> str:
    """Return the picture alone, as SVG without styles of its own. Called for the page, and by the console."""
    height = _HEAD + len(picture.rows) * _ROW + 8
    label = escape(f"{picture.title}. {picture.sentence}", quote=True)
    parts = [f'<svg viewBox="0 0 {_WIDTH} {height}" role="img" aria-label="{label}">']
    parts += [
        f'<rect class="b" x="0" y="{_HEAD + at * _ROW}" width="{_WIDTH}" height="{_ROW}"/>'
        for at in range(0, len(picture.rows), 2)
    ]
    for tick in picture.ticks:
        at = _x(picture, tick)
        parts.append(f'<path class="l" d="M{at} {_HEAD - 4}V{height - 8}"/>')
        parts.append(f'<text class="q m" x="{at}" y="{_HEAD - 10}">{_tick(tick)}</text>')
    parts.append(f'<text class="q" x="{_LABELS + _CHART + 44}" y="{_HEAD - 10}">ms</text>')
    parts += _segments(picture, height)
    for at, row in enumerate(picture.rows):
        parts.append(_bar(picture, row, _HEAD + at * _ROW))
    parts.append("</svg>")
    return "".join(parts)


def _segments(picture: Picture, height: int) -> list[str]:
    """The parts of the sentence, above the axis, and where each of them ends."""
    drawn = []
    for number, segment in enumerate(picture.segments):
        start, end = _x(picture, segment.start_ms), _x(picture, segment.start_ms + segment.took_ms)
        width = max(end - start, 1)
        opacity = 0.85 if number % 2 == 0 else 0.55
        title = escape(f"{segment.name} {segment.took_ms:.1f} ms")
        drawn.append(
            f'<rect class="g" x="{start}" y="20" width="{width:.1f}" height="8" opacity="{opacity}">'
            f"<title>{title}</title></rect>"
        )
        drawn.append(f'<path class="d" d="M{end} 20V{height - 8}"/>')
        if width > 8 * len(segment.name):
            middle = (start + end) / 2
            drawn.append(f'<text class="q m" x="{middle:.1f}" y="14">{escape(segment.name)}</text>')
    return drawn


def _bar(picture: Picture, row: Row, top: int) -> str:
    start = _x(picture, row.start_ms)
    end = _x(picture, row.start_ms + row.took_ms)
    middle = top + _ROW / 2
    indent = 26 + 12 * min(row.depth, 8)
    colour = f"c{row.process % len(_LIGHT)}"
    if row.is_moment:
        shape = f'<path class="{colour}" d="M{start} {middle - 7}l6 7l-6 7l-6-7z"/>'
    else:
        width = max(end - start, 2)
        shape = (
            f'<rect class="{colour}{"" if row.ok else " x"}" x="{start}" y="{middle - _BAR / 2}" '
            f'width="{width:.1f}" height="{_BAR}" rx="3"/>'
        )
    badge = ""
    if row.step is not None:
        badge = (
            f'<circle class="n" cx="13" cy="{middle}" r="8"/>'
            f'<text class="q m" x="13" y="{middle + 4}">{row.step}</text>'
        )
    at_left = end + 70 > _WIDTH
    took = (
        f'<text class="q r" x="{start - 5:.1f}" y="{middle + 4}">{escape(row.took)}</text>'
        if at_left
        else f'<text class="q" x="{max(end, start + 3) + 6:.1f}" y="{middle + 4}">{escape(row.took)}</text>'
    )
    return (
        f"<g><title>{escape(row.note)}</title>{badge}"
        f'<text x="{indent}" y="{middle + 4}">{escape(_shortened(row))}</text>{shape}{took}</g>'
    )


def _shortened(row: Row) -> str:
    room = int((_LABELS - 30 - 12 * min(row.depth, 8)) / 6.5)
    return row.label if len(row.label) <= room else row.label[: room - 1] + "…"


def _table(picture: Picture) -> str:
    rows = "".join(
        f"<tr><td>{escape(picture.processes[row.process])}</td><td>{escape(row.note)}</td></tr>"
        for row in picture.rows
    )
    summary = "<summary>Every span with all that is known of it</summary>"
    return f"<details>{summary}<table>{rows}</table></details>"


def _x(picture: Picture, ms: float) -> float:
    return round(_LABELS + picture.share(ms) * _CHART, 1)


def _tick(ms: float) -> str:
    return f"{ms:,.0f}" if abs(ms) >= 10 or ms == int(ms) else f"{ms:g}"
