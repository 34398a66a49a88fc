"""What is told of brokers: their directories, their servers, and what draining one would do."""

from hightide import PartitionDescription, TopicDescription
from hightide.errors import AddressUnreachableError
from hightide.servers import LogDirectory, ServerDescription
from hightide_cli.broker.tables import (
    DirectoryRow,
    directory_rows,
    directory_table,
    drain_plan,
    server_document,
    server_pairs,
)
from hightide_cli.cluster.server_survey import Surveyed
from hightide_cli.documents.cluster import LogDirectoryDocument
from hightide_cli.documents.view import view

SAID = ServerDescription("broker", "1", "0.1.0", 1_600_000_000_000, 1_600_000_000_500, "b1:1", "", 6000, 1.25)


def test_directories_are_numbered_within_their_broker_as_replicas_count_them() -> None:
    rows = directory_rows(
        [
            LogDirectory(1, "/a", 1000, 250, failed=False),
            LogDirectory(1, "/b", 1000, 0, failed=True),
            LogDirectory(2, "/a", 0, 0, failed=False),
        ]
    )
    assert [(row.broker_id, row.number, row.path, row.state) for row in rows] == [
        (1, 0, "/a", DirectoryRow.ONLINE),
        (1, 1, "/b", DirectoryRow.FAILED),
        (2, 0, "/a", DirectoryRow.ONLINE),
    ]
    table = directory_table(rows).splitlines()
    assert table[1].split()[-2:] == ["75", "%"]
    # What a broker cannot tell is not shown as nothing.
    assert view(LogDirectoryDocument, rows[2]) == {
        "broker": 2,
        "log_directory": 0,
        "path": "/a",
        "state": "online",
        "free_bytes": None,
        "total_bytes": None,
        "message": None,
    }


def test_a_broker_that_does_not_answer_has_a_row_that_says_so() -> None:
    error = AddressUnreachableError("b3:1 cannot be reached", address="b3:1")
    (row,) = directory_rows([LogDirectory(3, "", 0, 0, failed=False, error=error)])
    assert (row.state, row.message) == ("no answer", str(error))


def test_a_server_that_does_not_answer_is_shown_with_the_reason() -> None:
    error = AddressUnreachableError("b1:1 cannot be reached", address="b1:1")
    assert server_document(Surveyed("broker", 1, "b1:1", error=error)) is None
    assert server_pairs(Surveyed("broker", 1, "b1:1", error=error)) == [("answers", f"no: {error}")]


def test_a_server_says_who_it_is() -> None:
    said = Surveyed("broker", 1, "b1:1", SAID)
    assert said.name == "broker 1"
    assert dict(server_pairs(said))["since"] == "2020-09-13T12:26:40Z"
    document = server_document(said)
    assert document is not None
    assert document["version"] == "0.1.0"
    assert document["external_advertised"] is None


def topic(*partitions: tuple[int | None, tuple[int, ...]]) -> TopicDescription:
    return TopicDescription(
        "t",
        bytes(16),
        tuple(
            PartitionDescription(number, leader, 1, (1, 2, 3), isr)
            for number, (leader, isr) in enumerate(partitions)
        ),
    )


def test_draining_moves_what_another_live_replica_in_sync_can_lead() -> None:
    described = topic((1, (1, 2)), (1, (1,)), (1, (1, 3)), (2, (2, 1)), (None, (1,)))
    plan = drain_plan([described], 1, alive={1, 2})
    assert plan.movable == (("t", 0),)
    assert plan.stuck == (("t", 1), ("t", 2))
    assert plan.sentence(1, led=3, remaining=2, dry_run=True) == (
        "broker 1: 1 of 3 leaders would move to other brokers\n"
        "2 would be offline without it (t-1, t-2): no other replica of theirs is in sync; "
        "see `hightide topic describe`"
    )
    assert plan.sentence(1, led=3, remaining=0, dry_run=False) == (
        "broker 1: 3 of 3 leaders moved to other brokers\n"
        "it can be stopped now; it leads nothing until it is started again"
    )
