"""`hightide trace`: the cluster's work as traces, listed and drawn as a waterfall."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json, table

if TYPE_CHECKING:
    from hightide_local.traces.trace_lookup import SpanRecord, Trace

# As in hightide_runtime.telemetry.span_kinds, to which a test holds them: importing that costs more than
# `--help` may.
KINDS = (
    "failover",
    "controller_failover",
    "coordinator_failover",
    "group_rebalance",
    "topic_creation",
    "topic_deletion",
    "reassignment",
    "state_change",
)


class _Kind(click.Choice[str]):
    """A kind of trace, which may be written with dashes, as commands are."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return super().convert(value.replace("-", "_"), param, ctx)


_KIND = _Kind(KINDS)
_DIRECTORY = click.option(
    "--directory",
    "directories",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    multiple=True,
    help="The directory of the trace files; repeatable. The default is HIGHTIDE_TRACE_DIR and the "
    "directories of local clusters, or with --bootstrap or --context that of this one.",
)
_FILE = click.Path(dir_okay=False, writable=True, path_type=Path)


@click.group()
def trace() -> None:
    """Show the traces of failovers and of other work, over all processes."""


common_options(trace)


@common_options
@trace.command("ls")
@click.option("--kind", "kinds", type=_KIND, multiple=True, help="Only traces of this kind; repeatable.")
@click.option(
    "--all", "is_all", is_flag=True, help="Also show traces of clients that are of none of these kinds."
)
@click.option("--last", type=click.IntRange(min=1), metavar="N", help="Only the last N traces.")
@_DIRECTORY
@click.pass_context
def list_traces(
    ctx: click.Context, kinds: tuple[str, ...], is_all: bool, last: int | None, directories: tuple[Path, ...]
) -> None:
    """List the traces, the oldest first."""
    if kinds and is_all:
        raise click.UsageError("give either --kind or --all, not both", ctx)
    from hightide_cli.trace.waterfall import started_at, title, took_ms

    found = _traces(ctx, directories, None if is_all else kinds or KINDS)[-(last or 0) :]
    if wants_document(ctx):
        emit(ctx, {"traces": [{**_summary(each), "spans": len(each.spans)} for each in found]})
        return
    rows = [(each.trace_id, title(each), started_at(each), took_ms(each), len(each.spans)) for each in found]
    click.echo(table(["trace", "what", "started", "took ms", "spans"], rows))


@common_options
@trace.command()
@click.argument("trace_id", required=False)
@click.option("--last", is_flag=True, help="Show the latest failover; this is the default without TRACE_ID.")
@click.option(
    "--kind",
    "kinds",
    type=_KIND,
    multiple=True,
    help="Show the latest trace of this kind instead; repeatable.",
)
@click.option("--html", type=_FILE, help="Write the waterfall to FILE as a self-contained HTML page.")
@click.option(
    "--png", type=_FILE, help="Write the waterfall to FILE as a picture; needs hightide[pipelines]."
)
@_DIRECTORY
@click.pass_context
def show(
    ctx: click.Context,
    trace_id: str | None,
    last: bool,
    kinds: tuple[str, ...],
    html: Path | None,
    png: Path | None,
    directories: tuple[Path, ...],
) -> None:
    """Draw one trace as a waterfall. The beginning of TRACE_ID is enough if no other trace begins with it.

    \b
    hightide trace show --html failover.html
    """
    if trace_id is not None and (last or kinds):
        raise click.UsageError("give either TRACE_ID, or --last and --kind", ctx)
    from hightide_local.traces.trace_lookup import FAILOVER_KINDS

    wanted = None if trace_id is not None else kinds or FAILOVER_KINDS
    chosen = _choose(_traces(ctx, directories, wanted), trace_id, kinds)
    written = _write(chosen, html, png)
    if wants_document(ctx):
        emit(ctx, {**_summary(chosen), "spans": [_span(each) for each in chosen.spans]})
    elif written:
        from hightide_cli.trace.waterfall import conclusion, heading

        click.echo("\n".join(filter(None, [heading(chosen), conclusion(chosen), *written])))
    else:
        from hightide_cli.trace.waterfall import waterfall

        click.echo(waterfall(chosen))


def _write(chosen: "Trace", html: Path | None, png: Path | None) -> list[str]:
    """Write the requested files. Returns a line about each."""
    if html is None and png is None:
        return []
    from hightide_cli.trace.picture import picture_of

    picture = picture_of(chosen)
    try:
        if html is not None:
            from hightide_cli.trace.page import page_of

            html.write_text(page_of(picture), encoding="utf-8")
        if png is not None:
            from hightide_cli.trace.png import write_png

            write_png(picture, png)
    except OSError as error:
        raise click.ClickException(
            f"{error.filename or html or png} could not be written: {error.strerror or error}"
        ) from error
    return [f"written to {path}" for path in (html, png) if path is not None]


def _choose(found: "list[Trace]", trace_id: str | None, kinds: tuple[str, ...]) -> "Trace":
    if trace_id is None:
        if not found:
            raise click.ClickException(
                f"no {' or '.join(kinds)} was traced yet; `hightide trace ls` lists what there is"
                if kinds
                else "no failover was traced yet; `hightide demo` makes two"
            )
        return found[-1]
    matching = [each for each in found if each.trace_id.startswith(trace_id)]
    if len(matching) != 1:
        state = "no trace begins" if not matching else f"{len(matching)} traces begin"
        raise click.ClickException(f"{state} with {trace_id}; `hightide trace ls --all` lists them")
    return matching[0]


def _traces(
    ctx: click.Context, directories: tuple[Path, ...], kinds: "frozenset[str] | tuple[str, ...] | None"
) -> "list[Trace]":
    from hightide_cli.trace.search import all_traces

    return all_traces(directories or known_directories(ctx), kinds)


def known_directories(ctx: click.Context) -> tuple[Path, ...]:
    """Where traces are: of the cluster that the command line names, or of all that this machine has. Raises
    ClickException if those of the named one are not known."""
    import os

    from hightide_local.detached import default_directory
    from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE

    from hightide_cli.dev.cluster import bench_directory, demo_directory

    named = os.environ.get(TRACE_DIRECTORY_VARIABLE)
    local = (default_directory(), demo_directory(), bench_directory())
    chosen = choices(ctx)
    if chosen.bootstrap_is_said or chosen.context_is_said:
        return (Path(named),) if named else (_traces_of(chosen.target().bootstrap, local),)
    known = [each / "traces" for each in local]
    every = dict.fromkeys(path.resolve() for path in [*([Path(named)] if named else []), *known])
    return tuple(path for path in every if path.is_dir())


def _traces_of(bootstrap: str, local: tuple[Path, ...]) -> Path:
    """The directory with the traces of this cluster, if it is one of the local ones."""
    from hightide_local.cluster import ClusterError
    from hightide_local.detached import find

    wanted = {each.strip() for each in bootstrap.split(",")}
    for directory in local:
        try:
            cluster = find(directory)
        except ClusterError:
            continue
        if wanted & set(cluster.bootstrap.split(",")):
            return cluster.trace_directory
    raise click.ClickException(
        f"the cluster at {bootstrap} is none that this machine has started; give --directory, "
        "with the trace files of its processes"
    )


def _summary(chosen: "Trace") -> dict[str, Json]:
    """The summary of a trace, for programs. `parts` add up to the whole of the sentence."""
    from hightide_local.traces.trace_accounts import account_of

    from hightide_cli.trace.waterfall import title

    account = account_of(chosen)
    return {
        "trace_id": chosen.trace_id,
        "kind": chosen.kind,
        "what": title(chosen),
        "start_us": chosen.start_us,
        "took_ms": (chosen.end_us - chosen.start_us) / 1000,
        "sentence": None if account is None else account.sentence,
        "is_least": None if account is None else account.is_least,
        "parts": [] if account is None else [{"name": each.name, "ms": each.ms} for each in account.parts],
        "clients_waited_ms": None if account is None else account.waited_ms,
    }


def _span(span: "SpanRecord") -> dict[str, Json]:
    return asdict(span)
