"""`--tracing` of `hightide bench produce`: the cost of tracing."""

from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from hightide_bench.measuring.throughput import Figures, ProducePlan

__all__ = ["TRACING", "traced_and_not"]


def _modes(ctx: click.Context, param: click.Parameter, value: str | None) -> tuple[str, ...]:
    """Read `on,off`; called by click."""
    modes = tuple(part.strip() for part in value.split(",")) if value is not None else ()
    if len(set(modes)) != len(modes) or not set(modes) <= {"on", "off"}:
        raise click.BadParameter(f"{value!r} is none of: on | off | on,off", ctx, param)
    return tuple(sorted(modes, reverse=True))


TRACING = click.option(
    "--tracing",
    callback=_modes,
    metavar="on,off",
    help="Measure clusters with tracing, without it, or both in turn, and compare them.",
)


def traced_and_not(
    plan: "ProducePlan", modes: tuple[str, ...]
) -> "tuple[dict[str, Figures], dict[str, float]]":
    """The figures by mode, and their comparison, if there are two modes."""
    from hightide_bench.measuring.tracing_cost import ON, measure_tracing

    figures, ratio = measure_tracing(plan, modes)
    named = {"traced" if mode == ON else "untraced": each for mode, each in figures.items()}
    return named, {} if ratio is None else {"tracing_ratio": round(ratio, 4)}
