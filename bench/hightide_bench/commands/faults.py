"""`hightide bench faults`: checks that no acknowledged record is lost, whatever happens to processes and
disks."""

from pathlib import Path
from typing import TYPE_CHECKING

import click
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.progress import progress, progress_option
from hightide_cli.printing.rendering import Json, properties, table

from hightide_bench.commands.options import JSON

if TYPE_CHECKING:
    from hightide_bench.campaign.campaign import CampaignResult

EXIT_WRONG = 1
GROUPS = ("processes", "links", "disks", "files")


@common_options
@click.command()
@click.option(
    "--seconds",
    "--duration",
    "seconds",
    type=click.FloatRange(1, 7 * 86_400),
    default=120,
    show_default=True,
    help="The duration of the whole campaign.",
)
@click.option(
    "--seed",
    type=int,
    default=1,
    show_default=True,
    help="The seed of the random faults; the same seed gives the same faults.",
)
@click.option(
    "--season-seconds",
    type=click.FloatRange(1, 3_600),
    default=120,
    show_default=True,
    help="The duration of a season: after it everything is repaired and judged, and a new topic begins.",
)
@click.option(
    "--only",
    "groups",
    type=click.Choice(GROUPS),
    multiple=True,
    help="Only faults of this group; repeatable. The default is all groups.",
)
@click.option(
    "--flush",
    type=click.Choice(["replicated", "fsync"]),
    default="replicated",
    show_default=True,
    help="The setting `flush` of the topics.",
)
@click.option(
    "--directory",
    type=click.Path(path_type=Path, file_okay=False),
    help="The directory of the cluster, which is kept. The default is a temporary one, which is kept only if "
    "something is wrong.",
)
@progress_option
@JSON
@click.pass_context
def faults(
    ctx: click.Context,
    seconds: float,
    seed: int,
    season_seconds: float,
    groups: tuple[str, ...],
    flush: str,
    directory: Path | None,
    as_json: bool,
) -> None:
    """Inject faults into a new cluster, and check its clients.

    Processes are killed, stopped and paused, links are cut, disks are full, read-only, slow, hung or broken,
    files are cut, lost or have bits flipped, one disk at a time. A producer (acks=all, idempotent) and
    readers work meanwhile. The seed fixes the faults and their targets, not how the machine schedules them.

    The exit code is 1 if an acknowledged record is lost, duplicated, out of order, or differs between
    replicas, or if the cluster does not recover by itself.

    \b
    hightide bench faults --seconds 3600 --seed 7
    hightide bench faults --only files --seconds 300
    """
    from hightide_bench.campaign.ground import run_campaign

    with progress("striking", round(seconds)) as done:

        def say(elapsed_s: float, what: str) -> None:
            done.reach(min(round(elapsed_s), round(seconds)))
            if not done.say(what):
                click.echo(f"{elapsed_s:7.1f} s  {what}", err=True)

        found, kept = run_campaign(
            seconds=seconds,
            season_s=season_seconds,
            seed=seed,
            groups=groups or GROUPS,
            flush=flush,
            directory=directory,
            say=say,
        )
    if as_json or wants_document(ctx):
        emit(ctx, faults_document(seed, flush, found))
    else:
        click.echo(_text(seed, found))
    if found.violation:
        click.echo(f"the cluster lies in {kept}, to be looked into", err=True)
        ctx.exit(EXIT_WRONG)


def faults_document(seed: int, flush: str, found: "CampaignResult") -> dict[str, Json]:
    """The findings, as JSON."""
    return {
        "benchmark": "faults",
        "seed": seed,
        "flush": flush,
        "seconds": round(found.seconds, 1),
        "seasons": found.seasons,
        "faults": dict(sorted(found.faults.items())),
        "acknowledged": found.acknowledged,
        "read": found.read,
        "slowest_ms": round(found.slowest_ms, 1),
        "violations": int(bool(found.violation)),
        "violation": found.violation or None,
    }


def _text(seed: int, found: "CampaignResult") -> str:
    done = table(("fault", "times"), [(kind, str(times)) for kind, times in sorted(found.faults.items())])
    figures = properties(
        [
            ("seed", seed),
            ("seconds", round(found.seconds)),
            ("seasons", found.seasons),
            ("faults", found.faults.total()),
            ("acknowledged", found.acknowledged),
            ("read", found.read),
            ("slowest record", f"{found.slowest_ms:.0f} ms"),
            ("violations", int(bool(found.violation))),
        ]
    )
    lines = [done, "", figures]
    if found.violation:
        lines.append(found.violation)
    return "\n".join(lines)
