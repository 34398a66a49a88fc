"""`hightide bench verify`: checks that every record comes back once and in order, whatever breaks
meanwhile."""

from typing import TYPE_CHECKING

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress, progress_option
from hightide_cli.printing.rendering import Json, properties

from hightide_bench.commands.options import PARTITIONS_MAX, measured, record_bytes_option, seconds_option

if TYPE_CHECKING:
    from hightide_bench.measuring.target import LoadTarget
    from hightide_bench.measuring.verify import VerifyPlan, VerifyResult

EXIT_WRONG = 1


@common_options
@click.command()
@record_bytes_option(100)
@click.option(
    "--throughput",
    "--records-per-s",
    "records_per_s",
    type=click.FloatRange(1, 100_000),
    default=1_000,
    show_default=True,
    help="Records per second.",
)
@click.option(
    "--acks",
    type=click.Choice(["all", "1"]),
    default="all",
    show_default=True,
    help="The same as for `topic produce`.",
)
@click.option(
    "--partitions",
    type=click.IntRange(1, PARTITIONS_MAX),
    default=6,
    show_default=True,
    help="The number of partitions of the topic.",
)
@click.option("--keep", is_flag=True, help="Keep the topic, even if all is well.")
@seconds_option(30)
@progress_option
@click.pass_context
def verify(
    ctx: click.Context,
    record_bytes: int,
    records_per_s: float,
    acks: str,
    partitions: int,
    keep: bool,
    seconds: float,
) -> None:
    """Send numbered records and read them back. Meanwhile you, or another program, inject faults.

    Reports the acknowledged records that were lost, duplicated or reordered. The exit code is 1 if there are
    any. Ctrl-C ends the sending early. The topic stays if something is wrong, so that you can examine it.
    """
    from hightide_bench.measuring.verify import VerifyPlan

    plan = VerifyPlan(partitions, records_per_s, seconds, record_bytes, "all" if acks == "all" else 1)
    topic, verified = measured(ctx, lambda target: _verify(target, plan, keep))
    if wants_document(ctx):
        emit(ctx, verify_document(topic, plan, verified))
    else:
        click.echo(_text(topic, verified))
    if not verified.findings.is_perfect:
        ctx.exit(EXIT_WRONG)


def _verify(target: "LoadTarget", plan: "VerifyPlan", keep: bool) -> "tuple[str, VerifyResult]":
    from hightide import Admin

    from hightide_bench.measuring.verify import VerifyRun

    topic = target.create_topic("verify", plan.partitions)
    with progress(f"verifying {topic}", int(plan.records_per_s * plan.measured_s)) as done:
        verified = VerifyRun(target.bootstrap, topic, plan).run(done)
    if verified.findings.is_perfect and not keep:
        with Admin(target.bootstrap) as admin:
            admin.delete_topic(topic)
    return topic, verified


def verify_document(topic: str, plan: "VerifyPlan", verified: "VerifyResult") -> dict[str, Json]:
    """The findings, as JSON."""
    found = verified.findings
    return {
        "benchmark": "verify",
        "topic": topic,
        "partitions": plan.partitions,
        "acks": str(plan.acks),
        "acknowledged": found.acknowledged,
        "unsure": found.unsure,
        "read": found.read,
        "lost": found.lost,
        "duplicated": found.duplicated,
        "reordered": found.reordered,
        "foreign": found.foreign,
        "unavailable_ms_max": round(verified.unavailable_ms_max, 1),
        "examples": list(found.examples),
        "first_error": None if verified.first_error is None else str(verified.first_error),
    }


def _text(topic: str, verified: "VerifyResult") -> str:
    found = verified.findings
    lines = [
        properties(
            [
                ("acknowledged", found.acknowledged),
                ("unsure", found.unsure),
                ("read", found.read),
                ("lost", found.lost),
                ("duplicated", found.duplicated),
                ("reordered", found.reordered),
                ("foreign", found.foreign),
                ("longest wait", f"{verified.unavailable_ms_max:.0f} ms"),
            ]
        ),
        *found.examples,
    ]
    if verified.first_error is not None:
        lines.append(f"the first that was not acknowledged: {verified.first_error}")
    if not found.is_perfect:
        lines.append(f"topic {topic} stays, to be looked into")
    return "\n".join(lines)
