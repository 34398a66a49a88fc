"""One look at the health of a cluster: which servers it asks, and which others if those do not answer."""

from collections import Counter
from collections.abc import Iterable
from typing import TYPE_CHECKING

import click

from hightide_cli.cluster.health_report import Holdings
from hightide_cli.command_line.exit_codes import EXIT_UNREACHABLE

if TYPE_CHECKING:
    from hightide import Admin, ClusterDescription, LogDirectory, ReplicaListing


class UnreachableError(click.ClickException):
    """No server can be reached; the message says which were tried."""

    exit_code = EXIT_UNREACHABLE


def look(ctx: click.Context, timeout_ms: int) -> "tuple[ClusterDescription, Holdings]":
    """Ask the controller and the brokers; without a controller, ask a broker in its place. Raises
    UnreachableError if no broker answers, and NotAuthorizedError."""
    from hightide.errors import BrokersUnavailableError, HightideError, NotAuthorizedError

    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, timeout_ms) as admin:
        try:
            described = admin.describe_cluster()
        except BrokersUnavailableError as error:
            raise _unreachable(ctx, error) from error
        except NotAuthorizedError:
            # There is a controller: it has refused.
            raise
        except HightideError:
            # Brokers know of no controller, or the one that they know does not answer.
            described = _without_controller(ctx, timeout_ms)
        try:
            arriving = _arriving(admin) if described.reassignment_count else 0
            return described, _holdings(admin, described, arriving)
        except HightideError as error:
            # A broker answered a moment ago.
            raise _unreachable(ctx, error) from error


def _without_controller(ctx: click.Context, timeout_ms: int) -> "ClusterDescription":
    from hightide.calls.addresses import bootstrap_addresses
    from hightide.errors import BrokersUnavailableError

    from hightide_cli.cluster.metadata_probe import MetadataProbe, without_controller
    from hightide_cli.command_line.choices import choices
    from hightide_cli.command_line.connections import credentials_of

    target = choices(ctx).target()
    addresses = bootstrap_addresses(target.bootstrap)
    with MetadataProbe(timeout_ms, credentials_of(target.files)) as probe:
        try:
            metadata = probe.ask_any(addresses, all_topics=True)
        except BrokersUnavailableError as error:
            raise _unreachable(ctx, error) from error
    return without_controller(metadata)


def _unreachable(ctx: click.Context, error: Exception) -> UnreachableError:
    from hightide_cli.command_line.choices import choices
    from hightide_cli.command_line.failures import sentence_of

    return UnreachableError(sentence_of(error, choices(ctx).resolved) or str(error))


def _arriving(admin: "Admin") -> int:
    moves = admin.list_reassignments().reassignments
    return sum(
        set(move.original) <= set(move.isr) and not set(move.replicas) <= set(move.isr) for move in moves
    )


def _holdings(admin: "Admin", described: "ClusterDescription", arriving: int) -> Holdings:
    from hightide.errors import HightideError

    try:
        listing = admin.describe_replicas()
        directories = admin.describe_log_directories()
    except HightideError as error:
        # The controller has answered; the sentence must say that no broker does.
        alive = [each.broker_id for each in described.brokers if each.alive]
        return Holdings(silent_brokers=dict.fromkeys(alive, str(error)), arriving=arriving)
    failed = failed_directories(listing, directories)
    coordinators = admin.coordinators()
    silent = silent_coordinators(admin, coordinators)
    return Holdings(failed, dict(listing.silent_brokers), arriving, coordinators, silent)


def silent_coordinators(admin: "Admin", coordinators: Iterable[str | None]) -> dict[str, str]:
    """The addresses among these that do not answer, and why. Brokers name a dead coordinator for as long as
    its session lasts."""
    from hightide_cli.cluster.server_survey import survey

    active = [("coordinator", None, each) for each in dict.fromkeys(coordinators) if each is not None]
    return {each.address: str(each.error) for each in survey(admin, active) if each.error is not None}


def failed_directories(
    listing: "ReplicaListing", directories: "list[LogDirectory]"
) -> dict[tuple[int, int], int]:
    """The number of replicas in each failed log directory, by broker and number. Directories without replicas
    are included, since the next replica may be placed there."""
    held = Counter((each.broker_id, each.log_directory) for each in listing.replicas if each.storage_failed)
    counted: Counter[int] = Counter()
    for each in directories:
        number = counted[each.broker_id]
        counted[each.broker_id] += 1
        if each.failed:
            held.setdefault((each.broker_id, number), 0)
    return dict(held)
