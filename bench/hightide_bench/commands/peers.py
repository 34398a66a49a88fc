"""`hightide bench peers`: Hightide beside Apache Kafka, on this machine, in turns."""

import os
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress, progress_option
from hightide_cli.printing.rendering import Json, table

from hightide_bench.commands.options import JSON, PARTITIONS_MAX, ROUNDS, seconds_option

if TYPE_CHECKING:
    from hightide_bench.peers.clusters.kafka_properties import KafkaSettings
    from hightide_bench.peers.clusters.peer_cluster import PeerCluster, System
    from hightide_bench.peers.comparison import RowResult
    from hightide_bench.peers.rows.row import PeersPlan, Row

EXIT_INCOMPLETE = 1
_DIRECTORY = click.Path(file_okay=False, path_type=Path)


@common_options
@click.command()
@click.option(
    "--only",
    "names",
    multiple=True,
    metavar="ROW",
    help="Measure only this row, or, if none is called so, those that begin with ROW-; may be repeated.",
)
@click.option(
    "--size-mb",
    type=click.IntRange(1, 10_000),
    default=400,
    show_default=True,
    help="How many megabytes the rows that read find.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    default=1_000,
    show_default=True,
    help="The number of partitions in the rows with many.",
)
@click.option("--directory", type=_DIRECTORY, help="Where both clusters keep their data meanwhile.")
@click.option("--cache", type=_DIRECTORY, help="Where the jars of Apache Kafka are kept.")
@seconds_option(5)
@ROUNDS
@progress_option
@JSON
@click.pass_context
def peers(
    ctx: click.Context,
    names: tuple[str, ...],
    size_mb: int,
    partitions: int,
    directory: Path | None,
    cache: Path | None,
    seconds: float,
    rounds: int,
    as_json: bool,
) -> None:
    """Compare Hightide with Apache Kafka. Both run on this machine, and are measured in turns.

    Maven downloads Kafka once. A ratio above 1 says how many times as good Hightide is as the better of the
    two Kafkas, the one with librdkafka's defaults and the tuned one. The rows are in bench/README.md.

    \b
    hightide bench peers --only e2e --only produce-1kb --rounds 5
    """
    from hightide_local.errors import ClusterError

    if find_spec("confluent_kafka") is None:
        raise ClusterError("this command needs the client of Apache Kafka: pip install 'hightide[peers]'")
    from hightide_bench.peers.rows.catalogue import UnknownRowError, rows_named
    from hightide_bench.peers.rows.row import PeersPlan

    try:
        rows = rows_named(names)
    except UnknownRowError as error:
        raise click.BadParameter(str(error), ctx, param_hint="--only") from None
    plan = PeersPlan(rounds=rounds, seconds=seconds, size_mb=size_mb, partitions=partitions)
    results = _measured(rows, plan, directory, cache)
    _print(ctx, as_json, plan, results)
    if any(each.failures for each in results):
        ctx.exit(EXIT_INCOMPLETE)


def _measured(
    rows: "list[Row]", plan: "PeersPlan", directory: Path | None, cache: Path | None
) -> "list[RowResult]":
    """Measure the rows, and return their results in the order of the table. Ctrl-C ends all processes, and
    the rows that were measured are printed."""
    from platformdirs import user_cache_path

    from hightide_bench.peers.clusters.hightide_cluster import HightideCluster
    from hightide_bench.peers.clusters.kafka_cluster import KafkaCluster
    from hightide_bench.peers.ground import BYTES_PER_GB, default_parent, disk_bytes, ground
    from hightide_bench.peers.jars.maven_jars import KAFKA, jars_of
    from hightide_bench.peers.page_cache import PageCache
    from hightide_bench.peers.turns import run_rows

    kept = (cache or user_cache_path("hightide", appauthor=False) / "peers").resolve()
    _say(f"{KAFKA.what} is kept in {kept}")
    jars = jars_of(KAFKA, kept)
    needed_bytes = disk_bytes(plan.size_mb)
    results = []
    with ground(directory or default_parent(), needed_bytes) as here:
        _say(f"both clusters keep up to {needed_bytes / BYTES_PER_GB:.0f} GB in {here}")
        numbers = iter(range(1_000_000))

        def new_cluster(system: "System", settings: "KafkaSettings") -> "PeerCluster":
            own = here / f"{system}-{next(numbers)}"
            return HightideCluster(own) if system == "hightide" else KafkaCluster(own, jars, settings)

        with PageCache(here / "page-cache") as cached, progress("measuring", len(rows), "steps") as done:
            try:
                for result in run_rows(rows, plan, new_cluster, kept, cached.fill, _say):
                    results.append(result)
                    done.advance(1)
            except KeyboardInterrupt:
                if not results:
                    raise
                _say("interrupted; these rows were measured before")
    return sorted(results, key=lambda each: rows.index(each.row))


def _say(line: str) -> None:
    click.echo(line, err=True)


def _print(ctx: click.Context, as_json: bool, plan: "PeersPlan", results: "list[RowResult]") -> None:
    from confluent_kafka import __version__ as client_version

    from hightide_bench.peers.comparison import document_of, lines_of, table_rows
    from hightide_bench.peers.jars.maven_jars import KAFKA_VERSION

    lines = [line for result in results for line in lines_of(result)]
    failures = [failure for result in results for failure in result.failures]
    about: dict[str, Json] = {
        "kafka": KAFKA_VERSION,
        "confluent_kafka": client_version,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "size_mb": plan.size_mb,
        "partitions": plan.partitions,
        "load_average": round(os.getloadavg()[0], 2),
    }
    if as_json or wants_document(ctx):
        emit(ctx, {"benchmark": "peers", **about, "lines": document_of(lines), "failures": list(failures)})
        return
    click.echo("bench peers " + " ".join(f"{name}={value}" for name, value in about.items()))
    headings = ["row", "", "Hightide", "Kafka default", "Kafka tuned", "ratio"]
    click.echo(table(headings, table_rows(lines)))
    for failure in failures:
        click.echo(f"failed: {failure}")
