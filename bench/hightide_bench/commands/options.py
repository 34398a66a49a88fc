"""The common parts of the benchmarks' commands: options, and the cluster that is measured."""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeVar

import click
from hightide_cli.command_line.choices import choices

if TYPE_CHECKING:
    from hightide_bench.measuring.target import LoadTarget

Command = TypeVar("Command", bound=Callable[..., Any])
Measured = TypeVar("Measured")

PARTITIONS_MAX = 10_000
_KEEPS = "hightide.bench_keeps_topics"
JSON = click.option("--json", "as_json", is_flag=True, help="Print one line of JSON; the same as -o json.")
ROUNDS = click.option(
    "--rounds",
    type=click.IntRange(1, 100),
    default=3,
    show_default=True,
    help="The number of rounds; each figure is their median.",
)


def record_bytes_option(default: int) -> Callable[[Command], Command]:
    """Add --record-bytes."""
    return click.option(
        "--record-bytes",
        type=click.IntRange(8, 900_000),
        default=default,
        show_default=True,
        help="The size of a record's value.",
    )


def seconds_option(default: float) -> Callable[[Command], Command]:
    """Add --seconds."""
    return click.option(
        "--seconds",
        "--duration",
        "seconds",
        type=click.FloatRange(0.1, 3600),
        default=default,
        show_default=True,
        help="The duration of each round.",
    )


def keep_option(command: Command) -> Command:
    """Add --keep, which `measured` obeys."""

    def take(ctx: click.Context, _: click.Parameter, value: bool) -> None:
        ctx.meta[_KEEPS] = value

    option = click.option(
        "--keep",
        is_flag=True,
        expose_value=False,
        callback=take,
        help="Keep the topics of the benchmark, instead of deleting them.",
    )
    return option(command)


def partition_counts(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[int, ...]:
    """Read `100,1000,10000`; called by click."""
    parts = [part.strip() for part in value.split(",")] if value is not None else []
    if not all(part.isdigit() and 1 <= int(part) <= PARTITIONS_MAX for part in parts):
        message = f"{value!r} is not a list of numbers from 1 to {PARTITIONS_MAX}, as in 100,1000"
        raise click.BadParameter(message, ctx, param)
    return tuple(map(int, parts))


def measured(ctx: click.Context, measure: "Callable[[LoadTarget], Measured]") -> Measured:
    """Measure the cluster that the command line means."""
    from hightide_cli.command_line.client_arguments import hand_on_files

    from hightide_bench.measuring.target import bench_target

    meant = choices(ctx).target()
    hand_on_files(meant.files)
    address = None if meant.is_default else meant.bootstrap
    with bench_target(address, keeps_topics=ctx.meta.get(_KEEPS, False)) as target:
        return measure(target)
