"""`hightide group lag`: shown once, or followed."""

import time
from typing import TYPE_CHECKING, Final

import click

from hightide_cli.group.lag_table import (
    furthest_behind,
    lag_document,
    lag_sentence,
    lag_table,
    watched_lag_document,
)
from hightide_cli.group.lag_watch import LagHistory
from hightide_cli.printing.live_text import draw, live_text
from hightide_cli.printing.output import emit, wants_document

if TYPE_CHECKING:
    from hightide import Admin

_ROWS_MAX: Final = 30


def show_lag(ctx: click.Context, admin: "Admin", name: str) -> None:
    """Look once. Raises HightideError."""
    lines = admin.group_lag(name)
    if wants_document(ctx):
        emit(ctx, lag_document(name, lines))
        return
    click.echo(lag_table(lines))
    click.echo(f"\n{lag_sentence(LagHistory().look(0.0, lines))}")


def watch_lag(ctx: click.Context, admin: "Admin", name: str, interval_s: float) -> None:
    """Look repeatedly, until Ctrl-C. Raises HightideError."""
    history = LagHistory()
    as_document = wants_document(ctx)
    try:
        with live_text(is_wanted=not as_document, is_kept=True) as live:
            while True:
                lines = admin.group_lag(name)
                pace = history.look(time.monotonic(), lines)
                if as_document:
                    emit(ctx, watched_lag_document(name, lines, pace))
                elif live is None:
                    click.echo(lag_sentence(pace))
                else:
                    draw(live, f"{lag_table(furthest_behind(lines, _ROWS_MAX))}\n\n{lag_sentence(pace)}")
                time.sleep(interval_s)
    except KeyboardInterrupt:
        # Ctrl-C is the only way to end it, and no failure.
        return
