"""`hightide bench`: the performance of this machine with this cluster, in figures."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Literal, cast

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress, progress_option
from hightide_cli.printing.rendering import Json, properties, table

from hightide_bench.commands.faults import faults
from hightide_bench.commands.options import (
    JSON,
    PARTITIONS_MAX,
    ROUNDS,
    keep_option,
    measured,
    partition_counts,
    record_bytes_option,
    seconds_option,
)
from hightide_bench.commands.peers import peers
from hightide_bench.commands.rounds import CSV, measured_rounds
from hightide_bench.commands.spark import spark_read, spark_stream, spark_write
from hightide_bench.commands.tls import tls
from hightide_bench.commands.tracing import TRACING, traced_and_not
from hightide_bench.commands.verify import verify

THROUGHPUT_KEYS = (
    "records_per_s", "mb_per_s", "p50_ms", "p99_ms", "p999_ms", "client_cpu_s_per_gb", "broker_cpu_s_per_gb",
)  # fmt: skip
FAILOVER_KEYS = (
    "create_ms", "settle_s", "idle_cpu_percent", "zookeeper_idle_cpu_percent",
    "broker_rss_mb", "controller_rss_mb", "zookeeper_rss_mb",
    "detect_ms", "elect_ms", "zookeeper_ms", "fan_out_ms", "all_led_ms", "first_commit_ms", "multis_refused",
    "failover_cpu_s",
    "unavailable_ms_max", "unavailable_ms_p50", "rejoin_ms", "takeover_ms",
    "lost", "duplicated", "client_errors",
)  # fmt: skip
GROUPS_KEYS = (
    "join_ms", "steady_core_percent", "rebalance_ms", "failover_ms", "bytes_per_consumer",
    "joined_ms", "join_disturbed", "leave_ms", "leave_disturbed",
    "pings_per_s", "steady_client_percent", "steady_zookeeper_percent",
    "join_core_s", "rebalance_moved", "rebalance_core_s", "rebalance_client_s", "rebalance_zookeeper_s",
    "failover_core_s", "failover_client_s", "failover_stopped", "failover_look_ups", "failover_attempts",
    "client_errors",
)  # fmt: skip
_PARTITIONS = click.option(
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    default=6,
    show_default=True,
    help="The number of partitions of the topic.",
)


@click.group()
def bench() -> None:
    """Measure throughput, latency and failover, of the brokers and with Spark.

    On the cluster at --bootstrap, else on that of `hightide dev up`, else on one that is started and stopped
    for it. The load runs in processes of its own. A GB is 10⁹ bytes of values; CPU seconds are those of all
    brokers together, and of the clients.
    """


common_options(bench)
for _command in (verify, faults, peers, tls, spark_read, spark_write, spark_stream):
    bench.add_command(_command)


@common_options
@bench.command()
@record_bytes_option(1000)
@click.option(
    "--api",
    type=click.Choice(["send", "send_arrow"]),
    default="send",
    show_default=True,
    help="Send record by record, or tables of Arrow.",
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1", "0"]),
    default="all",
    show_default=True,
    help="The same as for `topic produce`.",
)
@click.option(
    "--compression",
    type=click.Choice(["none", "lz4", "zstd"]),
    default="none",
    show_default=True,
    help="How batches are compressed.",
)
@click.option(
    "--linger-ms",
    type=click.FloatRange(0, 1000),
    default=5,
    show_default=True,
    help="How long a batch waits for more records.",
)
@_PARTITIONS
@seconds_option(5)
@ROUNDS
@TRACING
@click.option(
    "--throughput",
    "records_per_s",
    type=click.FloatRange(1, 10_000_000),
    help="Records per second; the default is as many as possible.",
)
@CSV
@keep_option
@progress_option
@JSON
@click.pass_context
def produce(
    ctx: click.Context,
    tracing: tuple[str, ...],
    record_bytes: int,
    api: str,
    acks: str,
    compression: str,
    linger_ms: float,
    partitions: int,
    seconds: float,
    rounds: int,
    csv_path: Path | None,
    records_per_s: float | None,
    as_json: bool,
) -> None:
    """Send as fast as one process can. The latencies are from send() to the acknowledgement.

    \b
    hightide bench produce --record-bytes 100 --compression lz4 --csv rounds.csv
    """
    from hightide_bench.measuring.throughput import ProducePlan, measure_produce

    plan = ProducePlan(
        record_bytes=record_bytes,
        api=cast(Literal["send", "send_arrow"], api),
        acks="all" if acks == "all" else 1 if acks == "1" else 0,
        compression=None if compression == "none" else cast(Literal["lz4", "zstd"], compression),
        linger_ms=linger_ms,
        partitions=partitions,
        measured_s=seconds,
        rounds=rounds,
        records_per_s=records_per_s,
    )
    setting: dict[str, Json] = {"api": api, "record_bytes": record_bytes, "acks": acks, "rounds": rounds}
    if tracing:
        forms, compared = traced_and_not(plan, tracing)
        _print(ctx, as_json, THROUGHPUT_KEYS, forms, {**setting, **compared})
        return
    figures = measured_rounds(
        ctx, rounds, csv_path, lambda target, on_round: measure_produce(target, plan, on_round)
    )
    _print(ctx, as_json, THROUGHPUT_KEYS, {"produce": figures}, setting)


@common_options
@bench.command()
@record_bytes_option(1000)
@click.option(
    "--as",
    "form",
    type=click.Choice(["both", "arrow", "records"]),
    default="both",
    show_default=True,
    help="The form in which records are read.",
)
@click.option(
    "--size-mb",
    type=click.IntRange(1, 100_000),
    default=500,
    show_default=True,
    help="How many megabytes to read.",
)
@_PARTITIONS
@ROUNDS
@CSV
@keep_option
@progress_option
@JSON
@click.pass_context
def consume(
    ctx: click.Context,
    record_bytes: int,
    form: str,
    size_mb: int,
    partitions: int,
    rounds: int,
    csv_path: Path | None,
    as_json: bool,
) -> None:
    """Fill a topic and read all of it. As Arrow and as records; the latencies are those of a poll.

    In JSON the figures of the first form stand at the top, those of records below `records`.
    """
    from hightide_bench.measuring.throughput import ConsumePlan, measure_consume

    forms = ["arrow", "records"] if form == "both" else [form]
    plan = ConsumePlan(record_bytes=record_bytes, size_mb=size_mb, partitions=partitions, rounds=rounds)
    figures = measured_rounds(
        ctx,
        rounds * len(forms),
        csv_path,
        lambda target, on_round: measure_consume(target, plan, forms, on_round),
    )
    setting: dict[str, Json] = {"as": forms[0], "record_bytes": record_bytes, "rounds": rounds}
    _print(ctx, as_json, THROUGHPUT_KEYS, figures, setting)


@common_options
@bench.command()
@record_bytes_option(100)
@click.option(
    "--throughput",
    "--records-per-s",
    "records_per_s",
    type=click.FloatRange(1, 100_000),
    default=100,
    show_default=True,
    help="Records per second.",
)
@_PARTITIONS
@seconds_option(10)
@ROUNDS
@CSV
@keep_option
@progress_option
@JSON
@click.pass_context
def e2e(
    ctx: click.Context,
    record_bytes: int,
    records_per_s: float,
    partitions: int,
    seconds: float,
    rounds: int,
    csv_path: Path | None,
    as_json: bool,
) -> None:
    """Time single records from send() to poll(). From one process to another, acks=all, linger 0."""
    from hightide_bench.measuring.throughput import LatencyPlan, measure_latency

    plan = LatencyPlan(
        record_bytes=record_bytes,
        records_per_s=records_per_s,
        measured_s=seconds,
        partitions=partitions,
        rounds=rounds,
    )
    figures = measured_rounds(
        ctx, rounds, csv_path, lambda target, on_round: measure_latency(target, plan, on_round)
    )
    setting: dict[str, Json] = {"record_bytes": record_bytes, "rounds": rounds}
    _print(ctx, as_json, THROUGHPUT_KEYS, {"e2e": figures}, setting)


@common_options
@bench.command()
@click.option(
    "--kill/--term", "kill", default=True, show_default=True, help="End the leader by SIGKILL or by SIGTERM."
)
@_PARTITIONS
@click.option(
    "--scale",
    callback=partition_counts,
    metavar="N,N…",
    help="Measure with each of these numbers of partitions, one after another.",
)
@click.option(
    "--idle-seconds",
    type=click.FloatRange(0, 3600),
    default=20,
    show_default=True,
    help="How long the cluster is idle in the first round; 0: not at all.",
)
@ROUNDS
@keep_option
@progress_option
@JSON
@click.pass_context
def failover(
    ctx: click.Context,
    kill: bool,
    partitions: int,
    scale: tuple[int, ...],
    idle_seconds: float,
    rounds: int,
    as_json: bool,
) -> None:
    """Kill the leader under load, and then the controller. It is the broker that leads everything.

    The steps come from the trace, the waits from the acknowledgements of 6 partitions that clients write to.
    Each round has a cluster of its own unless one runs. Exit code 1 where a record was lost or duplicated.
    """
    from hightide_bench.measuring.failover import FailoverPlan, measure_failover, merged
    from hightide_bench.measuring.partition_spread import PARTITIONS_A_TOPIC

    setting: dict[str, Json] = {"signal": "SIGKILL" if kill else "SIGTERM", "rounds": rounds}
    went_wrong = False
    for size in scale or (partitions,):
        plans = [
            FailoverPlan(size, graceful=not kill, idle_s=0 if number else idle_seconds)
            for number in range(rounds)
        ]
        with _steps_told(sum(each.steps for each in plans)) as say:
            measured_rounds = [measured(ctx, partial(measure_failover, plan=each, say=say)) for each in plans]
        figures = merged(measured_rounds)
        about = {"partitions": size, "topics": -(-size // PARTITIONS_A_TOPIC), **setting}
        _print(ctx, as_json, FAILOVER_KEYS, {"failover": figures}, about, upright=True)
        went_wrong |= bool(figures["lost"] or figures["duplicated"])
    if went_wrong:
        ctx.exit(1)


@common_options
@bench.command()
@click.option(
    "--consumers",
    type=click.IntRange(1, 50_000),
    default=5_000,
    show_default=True,
    help="The number of consumers in all groups together.",
)
@click.option(
    "--groups",
    type=click.IntRange(1, 10_000),
    default=50,
    show_default=True,
    help="The number of groups, which have equal sizes.",
)
@click.option(
    "--session-timeout-ms",
    type=click.IntRange(500, 600_000),
    default=10_000,
    show_default=True,
    help="The session timeout of each consumer.",
)
@click.option(
    "--moving-percent",
    type=click.IntRange(0, 100),
    default=20,
    show_default=True,
    help="The percentage of consumers whose positions change between two Pings.",
)
@click.option(
    "--streams-per-connection",
    type=click.IntRange(1, 1_000),
    default=1,
    show_default=True,
    help="How many consumers share a connection; 1: each has its own, as real consumers do.",
)
@seconds_option(20)
@ROUNDS
@progress_option
@JSON
@click.pass_context
def groups(
    ctx: click.Context,
    consumers: int,
    groups: int,
    session_timeout_ms: int,
    moving_percent: int,
    streams_per_connection: int,
    seconds: float,
    rounds: int,
    as_json: bool,
) -> None:
    """Let consumers join, leave, lose their coordinator. And be steady, join again, and swap all partitions.

    The consumers are real streams with nothing behind them, in two processes. They have a cluster of their
    own in any case: 1 broker, 1 controller, 2 coordinators. Rounds are those of one leaving and one joining.
    """
    from hightide_bench.measuring.groups import GroupsPlan, measure_groups

    if consumers % groups or consumers // groups < 2:
        message = f"{consumers} consumers are not {groups} groups of equal size, each of two or more"
        raise click.BadParameter(message, ctx, param_hint="--groups")
    plan = GroupsPlan(
        consumers=consumers,
        groups=groups,
        session_timeout_ms=session_timeout_ms,
        steady_s=seconds,
        moving_percent=moving_percent,
        streams_per_connection=streams_per_connection,
        rounds=rounds,
    )
    with _steps_told(plan.steps) as say:
        figures = measure_groups(plan, say)
    setting: dict[str, Json] = {
        "consumers": consumers,
        "groups": groups,
        "session_timeout_ms": session_timeout_ms,
        "moving_percent": moving_percent,
        "streams_per_connection": streams_per_connection,
        "client_processes": plan.processes,
    }
    _print(ctx, as_json, GROUPS_KEYS, {"groups": figures}, setting, upright=True)


@contextmanager
def _steps_told(steps: int) -> Iterator[Callable[[str], None]]:
    """Give the function to call when each step begins; a bar counts those that have ended."""
    with progress("measuring", steps, "steps") as done:
        begun = 0

        def say(what: str) -> None:
            nonlocal begun
            click.echo(what, err=True)
            done.reach(begun)
            begun += 1

        yield say


def _print(
    ctx: click.Context,
    as_json: bool,
    keys: tuple[str, ...],
    figures: Mapping[str, Mapping[str, float | None]],
    setting: Mapping[str, Json],
    upright: bool = False,
) -> None:
    """Print the figures. `upright` puts each on its own line, because there are too many for one."""
    from hightide_bench.measuring.statistics import rounded

    documents = {name: rounded({key: each[key] for key in keys}) for name, each in figures.items()}
    about: dict[str, Json] = {**setting, "load_average": round(os.getloadavg()[0], 2)}
    if as_json or wants_document(ctx):
        (_, first), *others = documents.items()
        emit(ctx, {"benchmark": ctx.info_name, **about, **first, **dict(others)})
        return
    click.echo(f"bench {ctx.info_name} " + " ".join(f"{name}={value}" for name, value in about.items()))
    if upright:
        for each in documents.values():
            click.echo(properties([(key.replace("_", " "), each[key]) for key in keys]))
        return
    rows = [(name, *(each[key] for key in keys)) for name, each in documents.items()]
    click.echo(table(["", *(key.replace("_", " ") for key in keys)], rows))
