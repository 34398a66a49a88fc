"""The outcomes of one order for its partitions, for people and for programs."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Json

if TYPE_CHECKING:
    from hightide import PartitionOutcome

    from hightide_cli.documents.moves import OutcomeDocument


def partition_document(outcome: "PartitionOutcome") -> "OutcomeDocument":
    """One partition as JSON; `error` is None if the order was carried out."""
    return {
        "topic": outcome.partition.topic,
        "partition": outcome.partition.partition,
        "error": None if outcome.error is None else error_name(outcome.error),
        "message": None if outcome.error is None else str(outcome.error),
    }


def error_name(error: Exception) -> str:
    """The code that the server named, as in INVALID_ASSIGNMENT."""
    from hightide.errors import ServerError
    from hightide.v1.errors_pb2 import ErrorCode

    code = error.code if isinstance(error, ServerError) else ErrorCode.ERROR_CODE_UNSPECIFIED
    return ErrorCode.Name(code).removeprefix("ERROR_CODE_")


@contextmanager
def told_as_deleted(ctx: click.Context, documents: Sequence[Json], *, dry_run: bool) -> Iterator[None]:
    """Print what the block has deleted, one document for each thing; also if a later one fails."""
    is_whole = False
    try:
        yield
        is_whole = True
    finally:
        if wants_document(ctx) and (is_whole or documents):
            emit(ctx, {"dry_run": dry_run, "deleted": documents})
    if not documents and not wants_document(ctx):
        click.echo("there is nothing to delete")


def fail_where_refused(outcomes: Sequence["PartitionOutcome"], what: str) -> None:
    """Raise click.ClickException, one sentence, where a partition was refused; the others were not."""
    refused = [each for each in outcomes if each.error is not None]
    if not refused:
        return
    reason = str(refused[0].error)
    if len(outcomes) == 1:
        raise click.ClickException(reason)
    others = f" (and {len(refused) - 1} more)" if len(refused) > 1 else ""
    raise click.ClickException(
        f"{len(refused)} of {len(outcomes)} {what} refused; {refused[0].partition}{others}: {reason}"
    )
