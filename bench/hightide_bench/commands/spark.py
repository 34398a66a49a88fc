"""`hightide bench spark-…`: the performance of Spark with this cluster, in figures."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress_option
from hightide_cli.printing.rendering import Json, table

from hightide_bench.commands.options import (
    JSON,
    ROUNDS,
    Command,
    measured,
    partition_counts,
    record_bytes_option,
)

if TYPE_CHECKING:
    from hightide_bench.spark.spark_runs import Figures, SparkPlan

RATE_KEYS = ("rows_per_s", "mb_per_s")
STREAM_KEYS = ("batch_overhead_ms", "batch_ms", "rate_batch_ms")
CATCH_UP_KEYS = ("catch_up_rows_per_s",)


def _plan_options(record_bytes: int, size_mb: int) -> Callable[[Command], Command]:
    def add(command: Command) -> Command:
        options: tuple[Callable[[Command], Command], ...] = (
            JSON,
            click.option(
                "--workers",
                type=click.IntRange(1, 256),
                default=2,
                show_default=True,
                help="The number of Spark threads, each with a Python process.",
            ),
            ROUNDS,
            click.option(
                "--partitions",
                callback=partition_counts,
                metavar="N,N…",
                default="1,2,4,8",
                show_default=True,
                help="Measure with topics of these numbers of partitions, in turns.",
            ),
            click.option(
                "--size-mb",
                type=click.IntRange(1, 100_000),
                default=size_mb,
                show_default=True,
                help="How many megabytes of values each topic gets in each round.",
            ),
            record_bytes_option(record_bytes),
        )
        for option in options:
            command = option(command)
        return progress_option(command)

    return add


@common_options
@click.command("spark-read")
@_plan_options(record_bytes=100, size_mb=100)
@click.pass_context
def spark_read(
    ctx: click.Context,
    record_bytes: int,
    size_mb: int,
    partitions: tuple[int, ...],
    rounds: int,
    workers: int,
    as_json: bool,
) -> None:
    """Fill topics and read all of them as a batch. All columns, into nothing.

    In JSON the best figures stand at the top, those of each number of partitions below `partitions`.
    """
    from hightide_bench.spark.reading import measure_spark_read
    from hightide_bench.spark.spark_runs import SparkPlan, on_spark

    plan = SparkPlan(record_bytes, size_mb, partitions, rounds, workers)
    _print(ctx, as_json, plan, RATE_KEYS, measured(ctx, on_spark(measure_spark_read, plan, plan.turns)))


@common_options
@click.command("spark-write")
@_plan_options(record_bytes=100, size_mb=50)
@click.pass_context
def spark_write(
    ctx: click.Context,
    record_bytes: int,
    size_mb: int,
    partitions: tuple[int, ...],
    rounds: int,
    workers: int,
    as_json: bool,
) -> None:
    """Write rows that Spark makes to topics, exactly once.

    In JSON the best figures stand at the top, those of each number of partitions below `partitions`.
    """
    from hightide_bench.spark.spark_runs import SparkPlan, on_spark
    from hightide_bench.spark.writing import measure_spark_write

    plan = SparkPlan(record_bytes, size_mb, partitions, rounds, workers)
    _print(ctx, as_json, plan, RATE_KEYS, measured(ctx, on_spark(measure_spark_write, plan, plan.turns)))


@common_options
@click.command("spark-stream")
@_plan_options(record_bytes=100, size_mb=100)
@click.pass_context
def spark_stream(
    ctx: click.Context,
    record_bytes: int,
    size_mb: int,
    partitions: tuple[int, ...],
    rounds: int,
    workers: int,
    as_json: bool,
) -> None:
    """Catch up with topics by Trigger.AvailableNow. And time micro-batches beside the rate source's.

    `batch_overhead_ms` is how much longer a micro-batch of 1,000 rows takes than one of Spark's own source
    rate-micro-batch, in turns. In JSON the best rate stands at the top, the others below `partitions`.
    """
    from hightide_bench.spark.spark_runs import SparkPlan, on_spark
    from hightide_bench.spark.streaming import measure_spark_stream

    plan = SparkPlan(record_bytes, size_mb, partitions, rounds, workers)
    overhead, catch_up = measured(ctx, on_spark(measure_spark_stream, plan, plan.turns + plan.rounds))
    _print(ctx, as_json, plan, CATCH_UP_KEYS, catch_up, overhead)


def _print(
    ctx: click.Context,
    as_json: bool,
    plan: "SparkPlan",
    keys: tuple[str, ...],
    by_partitions: "Mapping[int, Figures]",
    others: "Mapping[str, float | None] | None" = None,
) -> None:
    """Print the best figures (highest rate), those of all numbers of partitions, and others."""
    from hightide_bench.measuring.statistics import rounded

    documents = {number: rounded({key: each[key] for key in keys}) for number, each in by_partitions.items()}
    best = max(documents.values(), key=lambda each: each[keys[0]] or 0)
    about: dict[str, Json] = {
        "workers": plan.workers,
        "record_bytes": plan.record_bytes,
        "size_mb": plan.size_mb,
        "rounds": plan.rounds,
        "load_average": round(os.getloadavg()[0], 2),
    }
    beside = rounded(others or {})
    if as_json or wants_document(ctx):
        below = {str(number): each for number, each in documents.items()}
        document = {"benchmark": ctx.info_name, **about, **beside, **best, "partitions": below}
        emit(ctx, document)
        return
    head = {**about, **beside}
    click.echo(f"bench {ctx.info_name} " + " ".join(f"{name}={value}" for name, value in head.items()))
    rows = [(number, *(each[key] for key in keys)) for number, each in documents.items()]
    click.echo(table(["partitions", *(key.replace("_", " ") for key in keys)], rows))
