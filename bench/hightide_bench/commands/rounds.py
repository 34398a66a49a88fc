"""The output of a benchmark while it runs: a bar over its rounds, and a line of CSV for each."""

import csv
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from hightide_cli.printing.progress import progress

from hightide_bench.commands.options import Measured, measured

if TYPE_CHECKING:
    from hightide_bench.measuring.target import LoadTarget

OnRound = Callable[[str, Mapping[str, float | None]], None]

CSV = click.option(
    "--csv",
    "csv_path",
    type=click.Path(dir_okay=False, writable=True, path_type=Path),
    metavar="FILE",
    help="Also write the figures of each round to FILE, a line for each.",
)


@contextmanager
def reported_rounds(what: str, rounds: int, csv_path: Path | None) -> Iterator[OnRound]:
    """Give the function to call with the figures of each round and their subject. Raises OSError before the
    measurement if the file cannot be written."""
    with ExitStack() as stack:
        file = None
        if csv_path is not None:
            file = stack.enter_context(csv_path.open("w", newline="", encoding="utf-8"))
        done = stack.enter_context(progress(what, rounds, "steps"))
        writer: Any = None if file is None else csv.writer(file, lineterminator="\n")
        count = 0

        def on_round(of: str, figures: Mapping[str, float | None]) -> None:
            nonlocal count
            if writer is not None and file is not None:
                if count == 0:
                    writer.writerow(["round", "of", *figures])
                writer.writerow(
                    [count + 1, of, *("" if each is None else f"{each:.6g}" for each in figures.values())]
                )
                # A user who ends a long benchmark keeps its figures so far.
                file.flush()
            count += 1
            done.advance(1)

        yield on_round


def measured_rounds(
    ctx: click.Context,
    rounds: int,
    csv_path: Path | None,
    measure: "Callable[[LoadTarget, OnRound], Measured]",
) -> Measured:
    """Measure the cluster that the command line means, and report each round. The bar begins when the cluster
    is running, since its start shows its own progress."""

    def measure_there(target: "LoadTarget") -> Measured:
        with reported_rounds("measuring", rounds, csv_path) as on_round:
            return measure(target, on_round)

    return measured(ctx, measure_there)
