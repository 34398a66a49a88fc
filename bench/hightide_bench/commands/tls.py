"""`hightide bench tls`: the cost of TLS."""

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress_option
from hightide_cli.printing.rendering import Json, table

from hightide_bench.commands.options import JSON, ROUNDS, record_bytes_option, seconds_option
from hightide_bench.commands.rounds import CSV, reported_rounds

if TYPE_CHECKING:
    from hightide_bench.measuring.throughput import Figures

KEYS = (
    "produce_mb_per_s", "produce_client_cpu_s_per_gb", "produce_broker_cpu_s_per_gb",
    "e2e_p50_ms", "e2e_p99_ms", "connect_p50_ms",
)  # fmt: skip
_LATENCY_RECORD_BYTES = 100
_LATENCY_RECORDS_PER_S = 100.0
_PARTITIONS = 6


@common_options
@click.command()
@record_bytes_option(1000)
@seconds_option(5)
@ROUNDS
@CSV
@progress_option
@JSON
@click.pass_context
def tls(
    ctx: click.Context,
    record_bytes: int,
    seconds: float,
    rounds: int,
    csv_path: Path | None,
    as_json: bool,
) -> None:
    """Measure produce, e2e and connecting with TLS and without. On two clusters in turns, each with RF 3.

    Both sides of each connection show a certificate. --seconds is the duration of each of the two loads.
    The ratio is the median over the rounds of TLS divided by plaintext.
    """
    from hightide_bench.measuring.throughput import LatencyPlan, ProducePlan
    from hightide_bench.measuring.tls_cost import TlsPlan, measure_tls

    plan = TlsPlan(
        produce=ProducePlan(
            record_bytes=record_bytes,
            api="send",
            acks="all",
            compression=None,
            linger_ms=5,
            partitions=_PARTITIONS,
            measured_s=seconds,
            rounds=rounds,
        ),
        latency=LatencyPlan(
            record_bytes=_LATENCY_RECORD_BYTES,
            records_per_s=_LATENCY_RECORDS_PER_S,
            measured_s=seconds,
            partitions=_PARTITIONS,
            rounds=rounds,
        ),
        rounds=rounds,
    )
    with reported_rounds("measuring", 2 * rounds, csv_path) as on_round:
        figures, ratios = measure_tls(plan, on_round)
    about: dict[str, Json] = {
        "record_bytes": record_bytes,
        "rounds": rounds,
        "load_average": round(os.getloadavg()[0], 2),
    }
    rows = {**figures, "ratio": ratios}
    if as_json or wants_document(ctx):
        emit(ctx, {"benchmark": "tls", **about, **{name: {**_rounded(each)} for name, each in rows.items()}})
        return
    click.echo("bench tls " + " ".join(f"{name}={value}" for name, value in about.items()))
    columns = ["", *(key.replace("_", " ") for key in KEYS)]
    click.echo(table(columns, [(name, *_rounded(each).values()) for name, each in rows.items()]))


def _rounded(figures: "Figures") -> dict[str, float | None]:
    return {key: None if (value := figures[key]) is None else round(value, 3) for key in KEYS}
