"""`hightide trace`: failovers as traces, listed and drawn as a waterfall."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.options import common_options
from hightide_cli.output import emit, wants_document
from hightide_cli.rendering import Json, table

if TYPE_CHECKING:
    from hightide_local.traces import SpanRecord, Trace

_DIRECTORY = click.option(
    "--directory",
    "directories",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="Folder of the JSON lines; those of `dev up`, of the demo and of benchmarks unless said.",
)


@click.group()
def trace() -> None:
    """Show what happened in a failover, over all processes."""


common_options(trace)


@common_options
@trace.command("ls")
@click.option("--all", "all_traces", is_flag=True, help="Not only failovers.")
@_DIRECTORY
@click.pass_context
def list_traces(ctx: click.Context, all_traces: bool, directories: tuple[Path, ...]) -> None:
    """List the failovers, the oldest first."""
    from hightide_cli.waterfall import started_at, title

    found = _traces(directories, failovers_only=not all_traces)
    if wants_document(ctx):
        documents: list[Json] = [
            {
                "trace_id": each.trace_id,
                "what": title(each),
                "start_us": each.start_us,
                "took_ms": (each.end_us - each.start_us) / 1000,
                "spans": len(each.spans),
            }
            for each in found
        ]
        emit(ctx, {"traces": documents})
        return
    rows = [
        (each.trace_id, title(each), started_at(each), (each.end_us - each.start_us) / 1000, len(each.spans))
        for each in found
    ]
    click.echo(table(["trace", "what", "started", "took ms", "spans"], rows))


@common_options
@trace.command()
@click.argument("trace_id", required=False)
@click.option("--last", is_flag=True, help="The latest failover; also what is shown without a trace id.")
@_DIRECTORY
@click.pass_context
def show(ctx: click.Context, trace_id: str | None, last: bool, directories: tuple[Path, ...]) -> None:
    """Draw one trace as a waterfall. TRACE_ID may be cut short as long as only one trace begins so."""
    if trace_id is not None and last:
        raise click.UsageError("say either a trace id or --last, not both", ctx)
    chosen = _choose(_traces(directories, failovers_only=trace_id is None), trace_id)
    if wants_document(ctx):
        emit(ctx, {"trace_id": chosen.trace_id, "spans": [_span(each) for each in chosen.spans]})
        return
    from hightide_cli.waterfall import waterfall

    click.echo(waterfall(chosen))


def _choose(found: "list[Trace]", trace_id: str | None) -> "Trace":
    if trace_id is None:
        if not found:
            raise click.ClickException("no failover was traced yet; `hightide demo` makes two")
        return found[-1]
    matching = [each for each in found if each.trace_id.startswith(trace_id)]
    if len(matching) != 1:
        state = "no trace begins" if not matching else f"{len(matching)} traces begin"
        raise click.ClickException(f"{state} with {trace_id}; `hightide trace ls --all` lists them")
    return matching[0]


def _traces(directories: tuple[Path, ...], *, failovers_only: bool) -> "list[Trace]":
    from hightide_cli.failover_traces import all_traces

    return all_traces(directories or _known_directories(), failovers_only=failovers_only)


def _known_directories() -> tuple[Path, ...]:
    from hightide_local.detached import default_directory

    from hightide_cli.dev_cluster import bench_directory, demo_directory

    known = (default_directory(), demo_directory(), bench_directory())
    return tuple(path for path in (each / "traces" for each in known) if path.is_dir())


def _span(span: "SpanRecord") -> dict[str, Json]:
    return asdict(span)
