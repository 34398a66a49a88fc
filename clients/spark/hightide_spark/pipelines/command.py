"""The common parts of the four commands: the addresses of the cluster and of Spark, and the text of failures.

This file and the top of every command's module import nothing slow, since `--help` must answer at once.
"""

import json
import os
import re
import signal
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from hightide_spark.pipelines.run_progress import no_progress_option

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

Command = TypeVar("Command", bound=Callable[..., Any])
Json = Mapping[str, Any]

_BOOTSTRAP_VARIABLE: Final = "HIGHTIDE_BOOTSTRAP"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"
_AWAIT_S: Final = 1
#: The last line of a traceback that Spark quotes, if the exception is one of Hightide's.
_OURS: Final = re.compile(r"^\s*(?:\w+\.)*hightide\w*(?:\.\w+)*\.(?:\w+): (?P<sentence>.+)$", re.MULTILINE)
#: The same for any exception.
_RAISED: Final = re.compile(r"^\s*(?P<sentence>\w[\w.]*(?:Error|Exception): .+)$", re.MULTILINE)


def _named_values(
    ctx: click.Context, parameter: click.Parameter, given: tuple[str, ...]
) -> Mapping[str, str]:
    pairs = [each.partition("=") for each in given]
    wrong = next((name for name, separator, _ in pairs if not name or not separator), None)
    if wrong is not None:
        raise click.BadParameter(f"{wrong!r} is not of the form NAME=VALUE", ctx, parameter)
    return {name: value for name, _, value in pairs}


def _default_bootstrap() -> str:
    # Click's own `envvar` would override the default that `hightide --bootstrap` passes on.
    return os.environ.get(_BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP


def cluster_options(command: Command) -> Command:
    """Add --bootstrap, --master, -o and --no-progress to a command. `hightide` passes on its own options of
    these names as defaults."""
    options: tuple[Callable[[Command], Command], ...] = (
        click.option(
            "-o",
            "--output",
            type=click.Choice(["table", "json"]),
            default="table",
            help="The form of the results.",
        ),
        click.option(
            "--master",
            metavar="URL",
            help="The master of Spark; the default is that of spark-submit, else local[*].",
        ),
        click.option(
            "--bootstrap",
            metavar="HOST:PORT[,…]",
            default=_default_bootstrap,
            help=f"A broker, or several; unless said ${_BOOTSTRAP_VARIABLE}, else {DEFAULT_BOOTSTRAP}.",
        ),
    )
    for option in options:
        command = option(command)
    return no_progress_option(command)


SOURCE_OPTIONS: Final = click.option(
    "--option",
    "source_options",
    metavar="NAME=VALUE",
    multiple=True,
    callback=_named_values,
    help="An option of the source, such as maxOffsetsPerTrigger=1000000; repeatable.",
)
EVERY: Final = click.option(
    "--every",
    "every_s",
    type=click.FloatRange(min=0.1),
    metavar="SECONDS",
    help="Run until interrupted, with a micro-batch every so many seconds; without it, end at the present "
    "end of the topics.",
)


@contextmanager
def failures_as_sentences() -> Iterator[None]:
    """Turn failures that the user can act on into one line and exit code 1. Faults of the program pass
    through, and so become tracebacks. Each command calls it around its work."""
    try:
        yield
    except Exception as error:
        sentence = sentence_of(error)
        if sentence is None:
            raise
        raise click.ClickException(sentence) from error


def sentence_of(error: Exception) -> str | None:
    """The sentence for the user about a failure, or None for a fault of the program.

    Spark turns the exceptions of its workers into text with tracebacks. The last exception of Hightide in it
    gives the sentence.
    """
    from hightide import HightideError
    from pyspark.errors import PySparkException

    if isinstance(error, HightideError | OSError):
        return str(error)
    if not isinstance(error, PySparkException):
        return None
    text = str(error)
    if ours := list(_OURS.finditer(text)):
        return ours[-1]["sentence"].strip()
    first = text.strip().splitlines()[0]
    raised = list(_RAISED.finditer(text)) if "Traceback" in text else []
    return f"{first.partition('Traceback')[0].rstrip()} {raised[-1]['sentence'].strip()}" if raised else first


def trigger_of(every_s: float | None) -> dict[str, Any]:
    """The trigger of a stream: a micro-batch every `every_s` seconds, or, if it is None, one pass up to the
    present end of the topics."""
    return {"availableNow": True} if every_s is None else {"processingTime": f"{every_s} seconds"}


def await_end(query: "StreamingQuery", every_s: float | None) -> None:
    """Wait until a query has ended. A query with `every_s` runs until Ctrl-C or SIGTERM, and its next run
    repeats the interrupted micro-batch. Raises StreamingQueryException."""
    if every_s is None:
        query.awaitTermination()
        return
    interrupted = threading.Event()

    def interrupt(number: int, frame: FrameType | None) -> None:
        interrupted.set()

    # A KeyboardInterrupt could interrupt a call to the JVM.
    before = {number: signal.signal(number, interrupt) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        while not interrupted.is_set() and not query.awaitTermination(_AWAIT_S):
            pass
    finally:
        query.stop()
        for number, handler in before.items():
            signal.signal(number, handler)


@contextmanager
def settings(spark: "SparkSession", values: Mapping[str, str]) -> Iterator[None]:
    """Change settings of a session within the block. A query that starts in it keeps them."""
    before: dict[str, str | None] = {key: spark.conf.get(key, None) for key in values}
    for key, value in values.items():
        spark.conf.set(key, value)
    try:
        yield
    finally:
        for key, old in before.items():
            spark.conf.unset(key) if old is None else spark.conf.set(key, old)


def check_topics(bootstrap: str, topics: Iterable[str]) -> None:
    """Raise UnknownTopicError if one of the topics does not exist. Without this check a stream would wait for
    it without end, and a writer until its timeout."""
    from hightide import Admin

    with Admin(bootstrap, client_id="spark-pipeline") as admin:
        admin.describe_topics(topics)


def stream_of(
    spark: "SparkSession", bootstrap: str, options: Mapping[str, str], columns: str | None = None
) -> "DataFrame":
    """The records of topics as a stream. It starts at the earliest offsets unless the options say otherwise.
    `columns` are names and SQL types of the columns to read, or None for all."""
    chosen = {"bootstrap.servers": bootstrap, "startingOffsets": "earliest", **options}
    reader = spark.readStream.format("hightide").options(**chosen)
    return (reader if columns is None else reader.schema(columns)).load()


def query_id(checkpoint: Path) -> str:
    """The id of a query, which it keeps over restarts, from its checkpoint. Called from a micro-batch, so the
    checkpoint exists."""
    return str(json.loads((checkpoint / "metadata").read_text())["id"])


def print_report(output: str, document: Json, lines: list[str]) -> None:
    """Print a result: the lines for people or, if `output` is "json", the document for programs."""
    click.echo(json.dumps(document) if output == "json" else "\n".join(lines))
