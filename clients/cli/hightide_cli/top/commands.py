"""`hightide top`: the traffic in the cluster, redrawn every few seconds."""

import shutil
import sys
import time
from collections import deque
from collections.abc import Callable
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NoReturn

import click

from hightide_cli.command_line.options import common_options
from hightide_cli.printing.live_text import draw, live_text
from hightide_cli.printing.output import emit, wants_document

if TYPE_CHECKING:
    from hightide import Admin

    from hightide_cli.top.history import GroupLook, TopHistory, TopView

# Each group costs one call to a coordinator; the others are asked at the next looks, in turns.
_GROUPS_A_LOOK: Final = 20
# A look at 10,000 partitions takes a while: the cluster should not be kept busy by it.
_REST_OF_LOOKING: Final = 4
_LINES_OF_HEADINGS: Final = 16
# The number of rows of topics, and of groups, if there is no screen.
_ROWS_OF_PAPER: Final = 50


@common_options
@click.command()
@click.option(
    "--once", is_flag=True, help="Print once and end; without a terminal on stdout this is the default."
)
@click.option(
    "--interval",
    "interval_s",
    type=click.FloatRange(min=0.2, max=3600),
    default=2.0,
    show_default=True,
    help="Seconds between two updates.",
)
@click.pass_context
def top(ctx: click.Context, once: bool, interval_s: float) -> None:
    """Show the traffic of brokers and topics, the lag of groups, and the moves of partitions.

    An update costs a call to each broker and a few calls to the controller and the coordinators. Rates need
    two updates, so the first one is printed after one interval.
    """
    from hightide_cli.command_line.connections import open_admin
    from hightide_cli.top.history import TopHistory

    history, turns = TopHistory(), deque[str]()
    is_live = not once and sys.stdout.isatty() and not wants_document(ctx)
    with open_admin(ctx) as admin:
        try:
            view, took_s = _look(admin, history, turns)
            time.sleep(max(interval_s, took_s * _REST_OF_LOOKING))
            if not is_live:
                view, _ = _look(admin, history, turns)
                _print(ctx, view)
                return
            with live_text(is_wanted=True, is_kept=True) as live:
                follow(lambda: _look(admin, history, turns), lambda text: draw(live, text), interval_s)
        except KeyboardInterrupt:
            # Ctrl-C is the only way to end it, and no failure.
            return


def follow(
    look: "Callable[[], tuple[TopView, float]]",
    show: Callable[[str], None],
    interval_s: float,
    sleep: Callable[[float], None] = time.sleep,
) -> NoReturn:
    """Look and show for ever. If a look fails, which is likely while a user watches, the last view stays on
    the screen below the reason, and the next look comes as usual. Ends by KeyboardInterrupt alone."""
    from hightide.errors import HightideError

    from hightide_cli.printing.rendering import printable

    screen = ""
    while True:
        took_s = 0.0
        try:
            view, took_s = look()
        except HightideError as error:
            show(f"{_now()} no news: {printable(str(error))}\n\n{screen}".rstrip())
        else:
            screen = _screen(view)
            show(screen)
        sleep(max(interval_s, took_s * _REST_OF_LOOKING))


def _now() -> str:
    return f"{datetime.now(UTC):%H:%M:%SZ}"


def _print(ctx: click.Context, view: "TopView") -> None:
    from hightide_cli.top.text import top_document, top_text

    if wants_document(ctx):
        emit(ctx, top_document(view))
    else:
        click.echo(top_text(view, _ROWS_OF_PAPER))


def _screen(view: "TopView") -> str:
    from hightide_cli.top.text import top_text

    lines = shutil.get_terminal_size().lines - _LINES_OF_HEADINGS - len(view.cluster.brokers)
    return top_text(view, max(5, lines // (2 if view.groups or view.moves else 1)))


def _look(admin: "Admin", history: "TopHistory", turns: deque[str]) -> "tuple[TopView, float]":
    """One look, and its duration. Raises HightideError."""
    from hightide_cli.top.history import Look

    begun_s = time.monotonic()
    cluster = admin.describe_cluster()
    replicas = admin.describe_replicas()
    at_s = time.monotonic()
    groups, names = _groups(admin, turns)
    moves = admin.list_reassignments().reassignments if cluster.reassignment_count else ()
    look = Look(at_s, cluster, replicas, groups, len(names), moves)
    return history.look(look, names), time.monotonic() - begun_s


def _groups(admin: "Admin", turns: deque[str]) -> "tuple[list[GroupLook], list[str]]":
    """The groups whose turn it is, and the names of all. Without a coordinator there are none to show."""
    from hightide.errors import HightideError

    from hightide_cli.top.history import GroupLook

    try:
        listed = {each.group: each for each in admin.list_groups()} if any(admin.coordinators()) else {}
    except HightideError:
        return [], []
    for name in listed:
        if name not in turns:
            turns.append(name)
    looks: list[GroupLook] = []
    for _ in range(min(_GROUPS_A_LOOK, len(turns))):
        name = turns.popleft()
        if name not in listed:
            continue
        turns.append(name)
        try:
            offsets = {each: held.offset for each, held in admin.group_offsets(name).items()}
        except HightideError:
            continue
        looks.append(GroupLook(name, listed[name].state, listed[name].member_count, offsets))
    return looks, list(listed)
