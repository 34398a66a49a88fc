"""The progress of long work: a bar with its pace and the time left, on stderr and only on a terminal."""

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

Command = TypeVar("Command", bound=Callable[..., Any])
Unit = Literal["records", "bytes", "steps"]

_OFF = "hightide.no_progress"
_IS_SHOWN = "hightide.progress"
_COUNT_COLUMNS: dict[Unit, str] = {
    "records": "{task.completed:,.0f} of {task.total:,.0f} records",
    "steps": "{task.completed:,.0f} of {task.total:,.0f}",
}


class WorkDone:
    """The object to which work reports its progress. This one shows nothing: there is no terminal, or the bar
    is not wanted."""

    def advance(self, count: int) -> None:
        """Add this much progress. Called once for each batch, not for each record."""

    def reach(self, count: int) -> None:
        """Set the whole progress."""

    def say(self, what: str | None) -> bool:
        """Show this text beside the work's name until the next progress; None removes it. Returns False if it
        is not shown."""
        return False


class _Bar(WorkDone):
    def __init__(self, progress: "Progress", task: "TaskID") -> None:
        self._progress = progress
        self._task = task
        self._name = progress.tasks[task].description
        self._says = False

    def advance(self, count: int) -> None:
        self.say(None)
        self._progress.advance(self._task, count)

    def reach(self, count: int) -> None:
        self.say(None)
        self._progress.update(self._task, completed=count)

    def say(self, what: str | None) -> bool:
        if what is not None or self._says:
            self._says = what is not None
            name = self._name if what is None else f"{self._name}: {_plain(what)}"
            self._progress.update(self._task, description=name)
        return True


def progress_option(command: Command) -> Command:
    """Add --no-progress to a command that takes long."""

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


@contextmanager
def progress(
    what: str, total: float, unit: Unit = "records", *, prints_meanwhile: bool = False
) -> Iterator[WorkDone]:
    """Show a bar while the block runs; it disappears when the block ends. `prints_meanwhile` means that the
    work prints results to stdout meanwhile, which a bar on the same terminal would disturb. Inside of another
    bar there is none."""
    if not is_shown(prints_meanwhile=prints_meanwhile):
        yield WorkDone()
        return
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as RichProgress

    counted = (
        [DownloadColumn(), TransferSpeedColumn()] if unit == "bytes" else [TextColumn(_COUNT_COLUMNS[unit])]
    )
    columns = (TextColumn("{task.description}"), BarColumn(), *counted, TimeRemainingColumn(compact=True))
    with _alone(), RichProgress(*columns, **_style()) as shown:
        yield _Bar(shown, shown.add_task(_plain(what), total=max(total, 1)))


@contextmanager
def waiting(what: str) -> Iterator[None]:
    """Show that work of unknown length is under way, with the time that it has taken."""
    if not is_shown():
        yield
        return
    from rich.progress import Progress as RichProgress
    from rich.progress import SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with _alone(), RichProgress(*columns, **_style()) as shown:
        shown.add_task(_plain(what), total=None)
        yield


def is_shown(*, prints_meanwhile: bool = False) -> bool:
    """Whether a bar would be shown. rich is not imported for it, since it costs more than most commands."""
    ctx = click.get_current_context(silent=True)
    if ctx is not None and (ctx.meta.get(_OFF) or ctx.meta.get(_IS_SHOWN)):
        return False
    return sys.stderr.isatty() and not (prints_meanwhile and sys.stdout.isatty())


@contextmanager
def _alone() -> Iterator[None]:
    ctx = click.get_current_context(silent=True)
    if ctx is None:
        yield
        return
    ctx.meta[_IS_SHOWN] = True
    try:
        yield
    finally:
        ctx.meta[_IS_SHOWN] = False


def _plain(text: str) -> str:
    """The text with rich's markup escaped, for names of topics and files."""
    return text.replace("[", r"\[")


def _style() -> dict[str, Any]:
    from rich.console import Console

    # Text printed to stdout is the result: rich would draw it above the bar, on stderr.
    console = Console(stderr=True, highlight=False)
    return {"console": console, "transient": True, "redirect_stdout": False}
