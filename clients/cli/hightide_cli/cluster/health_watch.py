"""Following the health of a cluster: redrawn on a terminal, otherwise one line for each look."""

import time
from collections.abc import Callable
from datetime import UTC, datetime

import click

from hightide_cli.cluster.health_look import UnreachableError, look
from hightide_cli.cluster.health_report import health_document, health_text, problems_of
from hightide_cli.command_line.exit_codes import EXIT_NOT_HEALTHY, EXIT_UNREACHABLE
from hightide_cli.printing.live_text import draw, live_text
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import printable


def watch_health(
    ctx: click.Context,
    interval_s: float,
    timeout_ms: int,
    *,
    is_over_when_well: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> int:
    """Look repeatedly until Ctrl-C, or until all is well. Returns the exit code of the last look. A cluster
    that cannot be reached is looked at again, because the user waits for it to come back."""
    code = EXIT_UNREACHABLE
    is_document = wants_document(ctx)
    try:
        with live_text(is_wanted=not is_document, is_kept=True) as live:
            while True:
                try:
                    described, holdings = look(ctx, timeout_ms)
                except UnreachableError as error:
                    text = printable(" ".join(error.format_message().split()))
                    code, problems = EXIT_UNREACHABLE, [text]
                    if is_document:
                        # There is no document to print; a program that reads the stream goes on with the next
                        # look.
                        click.echo(f"error: {text}", err=True)
                else:
                    problems, text = problems_of(described, holdings), health_text(described, holdings)
                    code = EXIT_NOT_HEALTHY if problems else 0
                    if is_document:
                        emit(ctx, health_document(described, holdings))
                if live is not None:
                    draw(live, f"{_now()}\n\n{text}")
                elif not is_document:
                    click.echo(f"{_now()} {printable('; '.join(problems)) or 'healthy'}")
                if is_over_when_well and code == 0:
                    return code
                sleep(interval_s)
    except KeyboardInterrupt:
        return code


def _now() -> str:
    return f"{datetime.now(UTC):%Y-%m-%dT%H:%M:%SZ}"
