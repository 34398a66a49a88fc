"""`hightide bench`: what this machine can do with this cluster, in figures."""

import os
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeVar, cast

import click

from hightide_cli.options import OutputFormat, choices, common_options
from hightide_cli.rendering import Json, json_line, table

if TYPE_CHECKING:
    from hightide_cli.benchmarks.target import Target

THROUGHPUT_KEYS = (
    "records_per_s", "mb_per_s", "p50_ms", "p99_ms", "p999_ms", "client_cpu_s_per_gb", "broker_cpu_s_per_gb",
)  # fmt: skip
FAILOVER_KEYS = (
    "detect_ms", "elect_ms", "zookeeper_ms", "fan_out_ms", "first_commit_ms", "unavailable_ms_max",
    "unavailable_ms_p50", "lost", "duplicated", "client_errors",
)  # fmt: skip
Command = TypeVar("Command", bound=Callable[..., Any])

_JSON = click.option("--json", "as_json", is_flag=True, help="One line of JSON, as -o json.")
_PARTITIONS = click.option("--partitions", type=click.IntRange(1, 10_000), default=6, show_default=True)
_ROUNDS = click.option(
    "--rounds", type=click.IntRange(1, 100), default=3, show_default=True, help="Figures are their medians."
)


def _record_bytes(default: int) -> Callable[[Command], Command]:
    return click.option(
        "--record-bytes",
        type=click.IntRange(8, 900_000),
        default=default,
        show_default=True,
        help="Size of a record's value.",
    )


def _seconds(default: float) -> Callable[[Command], Command]:
    return click.option(
        "--seconds",
        type=click.FloatRange(0.1, 3600),
        default=default,
        show_default=True,
        help="Of each round.",
    )


@click.group()
def bench() -> None:
    """Measure throughput, latency and failover.

    On the cluster at --bootstrap, else on that of `hightide dev up`, else on one that is started and stopped
    for it. The load runs in processes of its own. A GB is 10⁹ bytes of values; CPU seconds are those of all
    brokers together, and of the clients.
    """


common_options(bench)


@common_options
@bench.command()
@_record_bytes(1000)
@click.option("--api", type=click.Choice(["send", "send_arrow"]), default="send", show_default=True)
@click.option("--acks", type=click.Choice(["all", "1", "0"]), default="all", show_default=True)
@click.option("--compression", type=click.Choice(["none", "lz4", "zstd"]), default="none", show_default=True)
@click.option("--linger-ms", type=click.FloatRange(0, 1000), default=5, show_default=True)
@_PARTITIONS
@_seconds(5)
@_ROUNDS
@_JSON
@click.pass_context
def produce(
    ctx: click.Context,
    record_bytes: int,
    api: str,
    acks: str,
    compression: str,
    linger_ms: float,
    partitions: int,
    seconds: float,
    rounds: int,
    as_json: bool,
) -> None:
    """Send as fast as one process can; the latencies are from send() to the acknowledgement."""
    from hightide_cli.benchmarks.throughput import ProducePlan, measure_produce

    plan = ProducePlan(
        record_bytes=record_bytes,
        api=cast(Literal["send", "send_arrow"], api),
        acks="all" if acks == "all" else 1 if acks == "1" else 0,
        compression=None if compression == "none" else cast(Literal["lz4", "zstd"], compression),
        linger_ms=linger_ms,
        partitions=partitions,
        measured_s=seconds,
        rounds=rounds,
    )
    figures = _measure(ctx, lambda target: measure_produce(target, plan))
    setting: dict[str, Json] = {"api": api, "record_bytes": record_bytes, "acks": acks, "rounds": rounds}
    _print(ctx, as_json, THROUGHPUT_KEYS, {"produce": figures}, setting)


@common_options
@bench.command()
@_record_bytes(1000)
@click.option(
    "--as", "form", type=click.Choice(["both", "arrow", "records"]), default="both", show_default=True
)
@click.option(
    "--size-mb", type=click.IntRange(1, 100_000), default=500, show_default=True, help="To be read."
)
@_PARTITIONS
@_ROUNDS
@_JSON
@click.pass_context
def consume(
    ctx: click.Context,
    record_bytes: int,
    form: str,
    size_mb: int,
    partitions: int,
    rounds: int,
    as_json: bool,
) -> None:
    """Fill a topic and read all of it, as Arrow and as records; the latencies are those of a poll.

    In JSON the figures of the first form stand at the top, those of records below `records`.
    """
    from hightide_cli.benchmarks.throughput import ConsumePlan, measure_consume

    forms = ["arrow", "records"] if form == "both" else [form]
    plan = ConsumePlan(record_bytes=record_bytes, size_mb=size_mb, partitions=partitions, rounds=rounds)
    figures = _measure(ctx, lambda target: measure_consume(target, plan, forms))
    setting: dict[str, Json] = {"as": forms[0], "record_bytes": record_bytes, "rounds": rounds}
    _print(ctx, as_json, THROUGHPUT_KEYS, figures, setting)


@common_options
@bench.command()
@_record_bytes(100)
@click.option("--records-per-s", type=click.FloatRange(1, 100_000), default=100, show_default=True)
@_PARTITIONS
@_seconds(10)
@_ROUNDS
@_JSON
@click.pass_context
def e2e(
    ctx: click.Context,
    record_bytes: int,
    records_per_s: float,
    partitions: int,
    seconds: float,
    rounds: int,
    as_json: bool,
) -> None:
    """Time single records from send() in one process to poll() in another, acks=all, linger 0."""
    from hightide_cli.benchmarks.throughput import LatencyPlan, measure_latency

    plan = LatencyPlan(
        record_bytes=record_bytes,
        records_per_s=records_per_s,
        measured_s=seconds,
        partitions=partitions,
        rounds=rounds,
    )
    figures = _measure(ctx, lambda target: measure_latency(target, plan))
    setting: dict[str, Json] = {"record_bytes": record_bytes, "rounds": rounds}
    _print(ctx, as_json, THROUGHPUT_KEYS, {"e2e": figures}, setting)


@common_options
@bench.command()
@click.option("--kill/--term", "kill", default=True, show_default=True, help="SIGKILL or SIGTERM the leader.")
@_PARTITIONS
@_ROUNDS
@_JSON
@click.pass_context
def failover(ctx: click.Context, kill: bool, partitions: int, rounds: int, as_json: bool) -> None:
    """End the broker that leads most, under load on every partition; see how long clients wait.

    Steps count from the signal and come from the trace; the waits come from the acknowledgements.
    Exit code 1 where a record was lost or duplicated.
    """
    from hightide_cli.benchmarks.failover import FailoverPlan, measure_failover

    plan = FailoverPlan(partitions=partitions, graceful=not kill, rounds=rounds)
    figures = _measure(ctx, lambda target: measure_failover(target, plan))
    setting: dict[str, Json] = {"signal": "SIGKILL" if kill else "SIGTERM", "rounds": rounds}
    _print(ctx, as_json, FAILOVER_KEYS, {"failover": figures}, setting)
    if figures["lost"] or figures["duplicated"]:
        ctx.exit(1)


Measured = TypeVar("Measured")


def _measure(ctx: click.Context, measure: "Callable[[Target], Measured]") -> Measured:
    from hightide_cli.benchmarks.target import bench_target

    with bench_target(choices(ctx).address()) as target:
        return measure(target)


def _print(
    ctx: click.Context,
    as_json: bool,
    keys: tuple[str, ...],
    figures: Mapping[str, Mapping[str, float | None]],
    setting: Mapping[str, Json],
) -> None:
    from hightide_cli.benchmarks.statistics import rounded

    documents = {name: rounded({key: each[key] for key in keys}) for name, each in figures.items()}
    about: dict[str, Json] = {**setting, "load_average": round(os.getloadavg()[0], 2)}
    if as_json or choices(ctx).output is OutputFormat.JSON:
        (_, first), *others = documents.items()
        click.echo(json_line({"benchmark": ctx.info_name, **about, **first, **dict(others)}))
        return
    click.echo(f"bench {ctx.info_name} " + " ".join(f"{name}={value}" for name, value in about.items()))
    rows = [(name, *(each[key] for key in keys)) for name, each in documents.items()]
    click.echo(table(["", *(key.replace("_", " ") for key in keys)], rows))
