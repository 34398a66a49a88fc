"""The progress of a pipeline: a bar with the time left, on stderr, if that is a terminal and rich is
installed.

Spark knows on the driver which tasks are done, and reports the positions of streams. A thread reads both, so
the pipelines need no code for the bar.
"""

import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

if TYPE_CHECKING:
    from pyspark.sql import SparkSession
    from rich.progress import Progress, TaskID

Command = TypeVar("Command", bound=Callable[..., Any])
#: Topic and partition → offset.
Offsets = Mapping[tuple[str, int], int]

#: The key in click's context that --no-progress sets.
_OFF: Final = "hightide_spark.no_progress"
#: Spark would draw its own bars over this one, and into logs.
NO_BARS_OF_SPARK: Final = {"spark.ui.showConsoleProgress": "false"}
_REFRESH_S: Final = 0.5
_JOIN_S: Final = 5.0


@dataclass(frozen=True, slots=True)
class Stage:
    """The numbers of tasks of one running stage of Spark."""

    stage_id: int
    tasks: int
    done: int


@dataclass(frozen=True, slots=True)
class Shown:
    """The content of the bar. `total` is None while it is not known. `of` names what is counted: if it
    changes, the bar begins anew, since the new kind has another rate."""

    of: object
    text: str
    done: int = 0
    total: int | None = None


@dataclass(slots=True)
class StreamCourse:
    """The progress of a stream in this run, from its reports after its micro-batches."""

    _first: dict[tuple[str, int], int] = field(default_factory=dict)
    _first_rows: int = 0
    """The records of a query's first micro-batch, for which Spark reports no start offsets."""

    def records(self, start: Offsets, end: Offsets, latest: Offsets, rows: int) -> tuple[int, int]:
        """The number of records that were read since the first report, and that number with the records that
        are left. The arguments are from one report: its offsets, and its number of rows."""
        if end and not start and not self._first:
            self._first_rows = rows
        for place, offset in end.items():
            self._first.setdefault(place, start.get(place, offset))
        done = self._first_rows + sum(max(offset - self._first[place], 0) for place, offset in end.items())
        left = sum(max(offset - end.get(place, offset), 0) for place, offset in latest.items())
        return done, done + left


def offsets_of(written: str | None) -> Offsets:
    """The offsets in a progress report of Spark; none if they are of another source."""
    from hightide_spark.core.stream_offsets import parse
    from hightide_spark.errors import UnreadableOffsetsError

    try:
        topics = parse(written)
    except UnreadableOffsetsError:
        return {}
    return {(name, number): at for name, each in topics.items() for number, at in each.offsets.items()}


def shown_of(stages: Iterable[Stage], records: tuple[int, int] | None) -> Shown:
    """The content of the bar: the records of a stream if it has more to read than one micro-batch, else the
    tasks of the running stages. `records` is the result of `StreamCourse.records`."""
    if records is not None and records[0] < records[1]:
        done, total = records
        return Shown("records", f"{done:,} of {total:,} records", done, total)
    running = sorted(stages, key=lambda each: each.stage_id)
    if not running:
        return Shown(None, "")
    done, total = sum(each.done for each in running), sum(each.tasks for each in running)
    return Shown(tuple(each.stage_id for each in running), f"{done:,} of {total:,} tasks", done, total)


def no_progress_option(command: Command) -> Command:
    """Add --no-progress to a command."""

    def take(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        if value:
            ctx.meta[_OFF] = True

    option = click.option(
        "--no-progress",
        is_flag=True,
        expose_value=False,
        callback=take,
        help="Show no progress bar; without a terminal on stderr there is none anyway.",
    )
    return option(command)


class Watch:
    """The Spark session whose work the bar shows; None until the command has made one."""

    def __init__(self) -> None:
        self.session: SparkSession | None = None

    def of(self, session: "SparkSession") -> "SparkSession":
        """Show the work of this session from now on, and return it."""
        self.session = session
        return session


@contextmanager
def work_shown(what: str) -> Iterator[Watch]:
    """Show a bar with the title `what` while the block runs. The pipelines' commands call it around their
    work."""
    watch = Watch()
    bar = _bar() if _is_wanted() else None
    if bar is None:
        yield watch
        return
    ended = threading.Event()
    with bar:
        task = bar.add_task(what, total=None, counted="")
        updating = threading.Thread(
            target=_keep_updated, args=(watch, bar, task, ended), name="progress", daemon=True
        )
        updating.start()
        try:
            yield watch
        finally:
            ended.set()
            updating.join(_JOIN_S)


def _is_wanted() -> bool:
    ctx = click.get_current_context(silent=True)
    return sys.stderr.isatty() and not (ctx is not None and ctx.meta.get(_OFF))


def _bar() -> "Progress | None":
    """An empty bar, or None if rich is not installed, as in the Python of a cluster."""
    try:
        from rich.console import Console
        from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
    except ModuleNotFoundError:
        return None
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.fields[counted]}"),
        TimeRemainingColumn(compact=True),
        TimeElapsedColumn(),
    )
    # Stdout has only the result.
    console = Console(stderr=True, highlight=False)
    return Progress(*columns, console=console, transient=True, redirect_stdout=False)


def _keep_updated(watch: Watch, bar: "Progress", task: "TaskID", ended: threading.Event) -> None:
    course, last = StreamCourse(), Shown(None, "")
    while not ended.wait(_REFRESH_S):
        if watch.session is None:
            continue
        try:
            now = look(watch.session, course)
        except Exception:  # noqa: BLE001 - the bar must never end the work
            return
        # The bar keeps its content between two stages.
        if now.total is None:
            continue
        if now.of != last.of:
            bar.reset(task, total=now.total)
        bar.update(task, completed=now.done, total=now.total, counted=now.text)
        last = now


def look(session: "SparkSession", course: StreamCourse) -> Shown:
    """Ask the driver for its running stages and streams. Raises Spark's errors while it stops."""
    tracker = session.sparkContext.statusTracker()
    stages = []
    for number in tracker.getActiveStageIds():
        found = tracker.getStageInfo(number)
        if found is not None:
            stages.append(Stage(number, found.numTasks, found.numCompletedTasks))
    return shown_of(stages, _records(session, course))


def _records(session: "SparkSession", course: StreamCourse) -> tuple[int, int] | None:
    for query in session.streams.active:
        report = query.lastProgress
        if report is not None and report.sources:
            source = report.sources[0]
            start, end = offsets_of(source.startOffset), offsets_of(source.endOffset)
            return course.records(start, end, offsets_of(source.latestOffset), source.numInputRows)
    return None
