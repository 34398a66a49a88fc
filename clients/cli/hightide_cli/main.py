"""The `hightide` command: finds the subcommand, and turns every failure into one line and an exit code."""

import os
import sys
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext

import click

from hightide_cli.command_line.choices import Choices
from hightide_cli.command_line.exit_codes import (
    EXIT_FAILED,
    EXIT_INTERRUPTED,
    EXIT_UNREACHABLE,
    EXIT_USAGE,
)
from hightide_cli.command_line.interrupts import interruptible
from hightide_cli.command_line.lazy_group import LazyCommand, LazyGroup
from hightide_cli.command_line.options import common_options

COMMANDS = {
    "topic": LazyCommand(
        "hightide_cli.topic.commands", "topic", "Create, change, delete, write and read topics."
    ),
    "group": LazyCommand("hightide_cli.group.commands", "group", "Show consumer groups; set their offsets."),
    "reassign": LazyCommand(
        "hightide_cli.reassign.commands", "reassign", "Move partitions to other brokers."
    ),
    "quota": LazyCommand(
        "hightide_cli.quota", "quota", "Show and change how much of the cluster clients may take."
    ),
    "elect": LazyCommand("hightide_cli.elect", "elect", "Elect preferred leaders, or unclean ones."),
    "cluster": LazyCommand(
        "hightide_cli.cluster.commands", "cluster", "Show the cluster, and whether it is well."
    ),
    "broker": LazyCommand(
        "hightide_cli.broker.commands", "broker", "Show brokers and what they hold; drain one."
    ),
    "controller": LazyCommand(
        "hightide_cli.controller", "controller", "Show the active controller; replace it."
    ),
    "coordinator": LazyCommand(
        "hightide_cli.coordinator", "coordinator", "Show who coordinates the groups; replace it."
    ),
    "config": LazyCommand(
        "hightide_cli.config.commands", "config", "Show and change settings of topics; show those of servers."
    ),
    "acl": LazyCommand("hightide_cli.acl.commands", "acl", "Show and change who may do what."),
    "context": LazyCommand(
        "hightide_cli.context.commands", "context", "Give clusters names; choose the one to use."
    ),
    "dev": LazyCommand("hightide_cli.dev.commands", "dev", "Start and stop a cluster on this machine."),
    "certs": LazyCommand(
        "hightide_cli.certs.commands", "certs", "Issue the certificates of a small cluster."
    ),
    "demo": LazyCommand("hightide_demo.command", "demo", "Kill a leader under load, and lose nothing."),
    "bench": LazyCommand(
        "hightide_bench.commands.bench", "bench", "Measure throughput, latency and failover."
    ),
    "pipeline": LazyCommand(
        "hightide_cli.pipeline", "pipeline", "Archive, replay and audit topics on Spark."
    ),
    "trace": LazyCommand("hightide_cli.trace.commands", "trace", "Show a failover as a waterfall."),
    "top": LazyCommand("hightide_cli.top.commands", "top", "Show traffic, lag and moves, and update them."),
    "console": LazyCommand(
        "hightide_console.command", "console", "Show the cluster in a browser, on this machine."
    ),
    "doctor": LazyCommand(
        "hightide_cli.doctor.commands", "doctor", "Find what is wrong, and what to do about it."
    ),
    "zk": LazyCommand("hightide_cli.zk.commands", "zk", "Show what is in ZooKeeper, and secure it."),
    "rpc": LazyCommand(
        "hightide_cli.rpc.commands", "rpc", "Call any method of any server, list and describe them."
    ),
    "version": LazyCommand(
        "hightide_cli.version", "version", "Show the versions of this command and the servers."
    ),
    "completion": LazyCommand(
        "hightide_cli.completion", "completion", "Print the completion script of a shell."
    ),
    "dump-index": LazyCommand(
        "hightide_cli.dump.index", "dump_index", "Print the indexes and epochs of a log on disk."
    ),
    "dump-log": LazyCommand("hightide_cli.dump.log", "dump_log", "Print the batches of a log on disk."),
}

_HELP = """Hightide: a replicated, partitioned commit log.

\b
A command takes the address of the cluster from --bootstrap, else --context, else
HIGHTIDE_BOOTSTRAP, else HIGHTIDE_CONTEXT, else the selected context, else the cluster
of `hightide dev up`, else it is 127.0.0.1:9092. `hightide context show` shows it.
"""


def _print_version(ctx: click.Context, parameter: click.Parameter, is_wanted: bool) -> None:
    if is_wanted and not ctx.resilient_parsing:
        from hightide_cli.version import client_version

        click.echo(f"hightide {client_version()}")
        ctx.exit()


cli = common_options(LazyGroup(table=COMMANDS, name="hightide", help=_HELP))
cli.params.append(
    click.Option(
        ["--version"],
        is_flag=True,
        is_eager=True,
        expose_value=False,
        callback=_print_version,
        help="Print the version of this command; `hightide version` also prints those of the servers.",
    )
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run one command; the console script calls it and exits with what it returns.

    Every failure that the user can act on is one line on stderr, `error: …`. A traceback is shown only
    for a fault of this program, or for all failures where HIGHTIDE_DEBUG is set.
    """
    chosen = Choices()
    words = sys.argv[1:] if arguments is None else list(arguments)
    try:
        with interruptible(), _traced(words):
            result = cli.main(args=words, prog_name="hightide", standalone_mode=False, obj=chosen)
    except click.exceptions.NoArgsIsHelpError as help_shown:
        click.echo(help_shown.format_message(), err=True)
        return EXIT_USAGE
    except click.UsageError as error:
        hint = f" (see `{error.ctx.command_path} --help`)" if error.ctx is not None else ""
        return _fail(f"{error.format_message()}{hint}", EXIT_USAGE)
    except click.Abort:
        return _fail("interrupted", EXIT_INTERRUPTED)
    except KeyboardInterrupt:
        return _fail("interrupted", EXIT_INTERRUPTED)
    except click.ClickException as error:
        return _fail(error.format_message(), error.exit_code)
    except Exception as error:
        from hightide_cli.command_line.failures import (  # Late: most commands do not fail.
            nobody_answers,
            sentence_of,
        )

        sentence = None if os.environ.get("HIGHTIDE_DEBUG") else sentence_of(error, chosen.resolved)
        if sentence is None:
            raise
        return _fail(sentence, EXIT_UNREACHABLE if nobody_answers(error) else EXIT_FAILED)
    return result if isinstance(result, int) else 0


def _traced(words: Sequence[str]) -> AbstractContextManager[object]:
    """A span for the command, if the environment enables tracing; the cluster's work for it joins that trace.
    Otherwise nothing is imported."""
    if not any(name == "HIGHTIDE_TRACE_DIR" or name.startswith("OTEL_EXPORTER_OTLP_") for name in os.environ):
        return nullcontext()
    from hightide_local.traces.client_traces import command_span

    command = next((word for word in words if word in COMMANDS), "")
    return command_span(f"hightide {command}".rstrip())


def _fail(sentence: str, exit_code: int) -> int:
    lines = [line.strip() for line in sentence.splitlines() if line.strip()] or ["it failed"]
    # A long message quotes the end of a log: its beginning and the end of the log are kept.
    text = " ".join(dict.fromkeys((lines[0], lines[-1])))
    if not text.isprintable():
        # The text quotes servers, files and logs, and none of them may control the terminal.
        from hightide_cli.printing.rendering import printable

        text = printable(text)
    click.echo(f"error: {text}", err=True)
    return exit_code


if __name__ == "__main__":
    sys.exit(main())
