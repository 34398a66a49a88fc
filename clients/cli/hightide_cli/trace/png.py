"""A trace as a PNG, drawn by matplotlib; the same picture as the page."""

from pathlib import Path
from typing import Any, Final

import click

from hightide_cli.trace.picture import Picture, Row

_COLOURS: Final = (
    "#2a6fd6", "#e2622e", "#16996b", "#8556cf", "#b98500", "#d0458c", "#0b8aa0", "#7a5c3e",
)  # fmt: skip
_INK, _SOFT, _LINE, _BAND, _FAILED = "#1c2530", "#5b6673", "#dfe4ea", "#f6f8fa", "#d33333"
_WIDTH_IN: Final = 13.0
_ROW_IN: Final = 0.27
_HEAD_IN: Final = 1.62
_FOOT_IN: Final = 0.18
_DPI: Final = 150
_LABELS: Final = 0.272
"""The share of the width that labels have."""
_RIGHT: Final = 0.915


def write_png(picture: Picture, path: Path) -> None:
    """Draw it into a file, as a PNG whatever the file's name. Called for `trace show --png`. Raises
    ClickException if matplotlib is not installed, and OSError."""
    try:
        import matplotlib as mpl
    except ImportError:
        raise click.ClickException(
            "a PNG is drawn by matplotlib, which is not installed; "
            "install hightide[pipelines], or write a page by --html, which needs nothing"
        ) from None
    mpl.use("Agg")
    from matplotlib import pyplot

    height_in = _HEAD_IN + len(picture.rows) * _ROW_IN + _FOOT_IN
    with mpl.rc_context({"font.family": "sans-serif", "font.size": 9, "svg.fonttype": "none"}):
        figure = pyplot.figure(figsize=(_WIDTH_IN, height_in), facecolor="white")
        try:
            _headings(figure, picture, height_in)
            bottom, top = _FOOT_IN / height_in, 1 - _HEAD_IN / height_in
            axes = figure.add_axes((_LABELS, bottom, _RIGHT - _LABELS, top - bottom))
            _frame(axes, picture)
            for at, row in enumerate(picture.rows):
                _draw(axes, picture, row, at)
            # The option's name sets the format, not the file's, which may end in anything.
            figure.savefig(path, dpi=_DPI, format="png")
        finally:
            pyplot.close(figure)


def _headings(figure: Any, picture: Picture, height_in: float) -> None:
    def write(text: str, inches_down: float, **style: Any) -> None:
        figure.text(0.018, 1 - inches_down / height_in, text, va="top", parse_math=False, **style)

    write(picture.title, 0.14, fontsize=14, fontweight="bold", color=_INK)
    write(picture.sentence, 0.46, fontsize=11.5, color=_INK)
    write(picture.facts, 0.76, fontsize=8.5, color=_SOFT)
    from matplotlib.patches import Patch

    keys = [Patch(color=_colour(number), label=name) for number, name in enumerate(picture.processes)]
    figure.legend(
        handles=keys,
        loc="upper right",
        bbox_to_anchor=(0.99, 1 - 0.10 / height_in),
        ncols=min(4, len(keys)) or 1,
        frameon=False,
        fontsize=8.5,
        labelcolor=_SOFT,
        handlelength=1.0,
        handleheight=1.0,
    )


def _frame(axes: Any, picture: Picture) -> None:
    """Bands, ticks, and the parts of the sentence above them."""
    count = len(picture.rows)
    axes.set_xlim(picture.begin_ms, picture.end_ms)
    axes.set_ylim(count, 0)
    axes.set_yticks([])
    axes.xaxis.tick_top()
    axes.set_xticks(picture.ticks, [f"{tick:,g}" for tick in picture.ticks])
    axes.tick_params(axis="x", colors=_SOFT, length=0, pad=2)
    axes.text(1.012, -0.08, "ms", transform=axes.get_yaxis_transform(), va="bottom", color=_SOFT)
    axes.grid(axis="x", color=_LINE, linewidth=0.8)
    axes.set_axisbelow(True)
    for spine in axes.spines.values():
        spine.set_visible(False)
    band = _LABELS / (_RIGHT - _LABELS)
    for at in range(0, count, 2):
        axes.axhspan(
            at, at + 1, xmin=-band, xmax=1 + 0.085 / (_RIGHT - _LABELS),
            color=_BAND, clip_on=False, zorder=-2, linewidth=0,
        )  # fmt: skip
    above = -(0.30 / _ROW_IN)
    for number, segment in enumerate(picture.segments):
        axes.barh(
            above, segment.took_ms, left=segment.start_ms, height=0.34, color=_COLOURS[0],
            alpha=0.85 if number % 2 == 0 else 0.5, clip_on=False,
        )  # fmt: skip
        end_ms = segment.start_ms + segment.took_ms
        axes.plot(
            [end_ms, end_ms], [above, count], color=_COLOURS[0], linewidth=0.9, linestyle=(0, (2, 3)),
            alpha=0.55, clip_on=False, zorder=1,
        )  # fmt: skip
        if segment.took_ms / (picture.end_ms - picture.begin_ms) > 0.011 * len(segment.name):
            middle_ms = segment.start_ms + segment.took_ms / 2
            axes.text(
                middle_ms, above - 0.32, segment.name, ha="center", va="bottom", color=_SOFT, fontsize=8.5
            )


def _draw(axes: Any, picture: Picture, row: Row, at: int) -> None:
    middle = at + 0.5
    colour = _colour(row.process)
    chart_in = _WIDTH_IN * (_RIGHT - _LABELS)
    labels_in = _WIDTH_IN * _LABELS

    def left_of_chart(inches: float) -> float:
        return (inches - labels_in) / chart_in

    style = {"va": "center", "transform": axes.get_yaxis_transform(), "parse_math": False}
    if row.step is not None:
        axes.text(
            left_of_chart(0.33), middle + 0.02, str(row.step), ha="center", fontsize=7.5, color=_SOFT,
            bbox={"boxstyle": "circle,pad=0.22", "fill": False, "edgecolor": _SOFT, "linewidth": 0.7},
            **style,
        )  # fmt: skip
    indent_in = 0.50 + 0.14 * min(row.depth, 8)
    axes.text(left_of_chart(indent_in), middle, row.label, ha="left", color=_INK, fontsize=9, **style)
    start_ms, end_ms = (min(each, picture.end_ms) for each in (row.start_ms, row.start_ms + row.took_ms))
    if row.is_moment:
        axes.plot([start_ms], [middle], marker="D", markersize=6, color=colour, clip_on=False, zorder=3)
    else:
        least_ms = (picture.end_ms - picture.begin_ms) * 0.0022
        axes.barh(
            middle, max(end_ms - start_ms, least_ms), left=start_ms, height=0.56, color=colour,
            edgecolor=_FAILED if not row.ok else "none", linewidth=1.6 if not row.ok else 0, zorder=2,
        )  # fmt: skip
    offset_pt = 7 if row.is_moment else 5
    axes.annotate(
        row.took, (end_ms, middle), xytext=(offset_pt, 0), textcoords="offset points",
        va="center", color=_SOFT, fontsize=8, annotation_clip=False, zorder=4,
        bbox={"boxstyle": "square,pad=0.1", "facecolor": "white", "alpha": 0.85, "linewidth": 0},
    )  # fmt: skip


def _colour(process: int) -> str:
    return _COLOURS[process % len(_COLOURS)]
