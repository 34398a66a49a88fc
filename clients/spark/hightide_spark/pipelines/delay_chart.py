"""Draws the chart of the delays as PNG."""

from collections.abc import Sequence
from itertools import cycle
from pathlib import Path

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.dates import AutoDateLocator, ConciseDateFormatter
from matplotlib.figure import Figure

from hightide_spark.pipelines.delay_statistics import DelayWindow, by_week, dry_and_wet

_COLOURS = ("#1f5fa8", "#d1702c", "#4b8b3b", "#7a4fa3", "#a33a3a", "#666666")
_DRY, _WET = "#d9b64c", "#3d7ea6"
_BAR = 0.38


def draw_chart(table: Sequence[DelayWindow], path: Path) -> None:
    """Write the chart of these windows to a PNG file. Needs no display. The command calls it after a run."""
    figure_of(table).savefig(path, format="png")


def figure_of(table: Sequence[DelayWindow]) -> Figure:
    """The chart: the mean delay of each origin by week, and in dry and wet hours."""
    figure = Figure(figsize=(10, 4.2), dpi=110, layout="constrained")
    FigureCanvasAgg(figure)
    over_time, by_weather = figure.subplots(1, 2, width_ratios=[3, 1.3])
    for (origin, weeks), colour in zip(by_week(table).items(), cycle(_COLOURS), strict=False):
        over_time.plot(*zip(*weeks, strict=True), label=origin, color=colour, linewidth=1.6)
    locator = AutoDateLocator()  # type: ignore[no-untyped-call]
    over_time.xaxis.set_major_locator(locator)
    over_time.xaxis.set_major_formatter(ConciseDateFormatter(locator))  # type: ignore[no-untyped-call]
    over_time.set_title("Mean departure delay by week", loc="left")
    over_time.set_ylabel("minutes")

    means = dry_and_wet(table)
    for shift, at, label, colour in ((-_BAR / 2, 0, "dry hours", _DRY), (_BAR / 2, 1, "rain or snow", _WET)):
        places = [number + shift for number in range(len(means))]
        bars = by_weather.bar(places, [each[at] for each in means.values()], _BAR, label=label, color=colour)
        by_weather.bar_label(bars, fmt="%.0f", padding=2, fontsize=8)
    by_weather.set_xticks(range(len(means)), list(means))
    by_weather.margins(y=0.22)  # The legend needs room above the bars.
    by_weather.set_title("Mean delay by weather", loc="left")
    for axes in (over_time, by_weather):
        axes.spines[["top", "right"]].set_visible(False)
        axes.grid(axis="y", color="#e4e4e4")
        axes.set_axisbelow(True)
        if axes.get_legend_handles_labels()[0]:
            axes.legend(frameon=False, fontsize=9)
    return figure
