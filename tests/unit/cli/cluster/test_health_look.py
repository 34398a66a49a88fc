"""The health of a cluster can be told also where nobody decides, and not where nobody answers."""

import click
import pytest
from hightide import Admin, ReplicaDescription, ReplicaListing, TopicPartition
from hightide.servers import LogDirectory
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide.v1.metadata_pb2 import Endpoint, PartitionMetadata, TopicMetadata
from hightide_cli.cluster.health_look import failed_directories, silent_coordinators
from hightide_cli.cluster.health_report import Holdings, health_document, problems_of
from hightide_cli.cluster.health_watch import watch_health
from hightide_cli.cluster.metadata_probe import coordinators_in, without_controller
from hightide_cli.command_line.choices import Choices, OutputFormat
from hightide_cli.main import cli, main
from unit.cli.answering_server import AnsweringServer

NOBODY = "127.0.0.1:1"


def partition(number: int, leader: int, isr: tuple[int, ...]) -> PartitionMetadata:
    return PartitionMetadata(partition=number, leader=leader, replicas=(1, 2, 3), isr=isr)


METADATA = GetMetadataResponse(
    cluster_id="c",
    brokers=[Endpoint(id=2, host="b2", port=2), Endpoint(id=1, host="b1", port=1)],
    topics=[
        TopicMetadata(
            topic="t",
            configs={"min.insync.replicas": "2"},
            partitions=[partition(0, 1, (1, 2, 3)), partition(1, -1, (3,)), partition(2, 2, (2, 1))],
        ),
        TopicMetadata(topic="u", configs={"min.insync.replicas": "x"}, partitions=[partition(0, 1, (1,))]),
    ],
    coordinators=[Endpoint(host="g", port=1), Endpoint()],
    controller_epoch=7,
)


def test_without_a_controller_a_broker_is_believed() -> None:
    described = without_controller(METADATA)
    assert [(each.broker_id, each.address, each.leader_count) for each in described.brokers] == [
        (1, "b1:1", 2),
        (2, "b2:2", 1),
    ]
    assert (described.topic_count, described.partition_count) == (2, 4)
    assert described.offline_partition_count == 1
    assert described.under_replicated_partition_count == 3
    assert described.under_min_isr_partition_count == 1
    problems = problems_of(described, Holdings())
    assert problems[0].startswith("no controller is active, so that no leader is elected")
    assert health_document(described, Holdings())["controller"] is None
    assert coordinators_in(METADATA) == ("g:1", None)


def test_a_failed_directory_is_told_also_where_nothing_lives_there() -> None:
    def replica(number: int, directory: int, failed: bool) -> ReplicaDescription:
        here = TopicPartition("t", number)
        return ReplicaDescription(here, bytes(16), 1, False, 1, 0, 0, 0, 0, directory, failed)

    listing = ReplicaListing((replica(0, 0, False), replica(1, 1, True), replica(2, 1, True)))
    directories = [
        LogDirectory(1, "/a", 1, 1, failed=False),
        LogDirectory(1, "/b", 1, 1, failed=True),
        LogDirectory(2, "/a", 1, 1, failed=True),
    ]
    assert failed_directories(listing, directories) == {(1, 1): 2, (2, 0): 0}


def test_a_coordinator_that_does_not_answer_is_told_though_brokers_take_it_for_active() -> None:
    with Admin(NOBODY, timeout_ms=300) as admin:
        silent = silent_coordinators(admin, [NOBODY, None, NOBODY])
    assert list(silent) == [NOBODY]
    described, holdings = without_controller(METADATA), Holdings(silent_coordinators=silent)
    (problem,) = (each for each in problems_of(described, holdings) if "coordinator" in each)
    assert problem.startswith(f"the coordinator at {NOBODY} does not answer, so that its groups rest: ")
    assert "refused" in problem
    assert health_document(described, holdings)["silent_coordinators"] == [NOBODY]


def test_a_cluster_that_cannot_be_reached_has_an_exit_code_of_its_own(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["cluster", "health", "--bootstrap", NOBODY, "--timeout", "0.3"]) == 3
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.endswith("; the address is what --bootstrap says\n")
    assert printed.err.count(NOBODY) == 1
    assert printed.err.count("\n") == 1


def test_watching_goes_on_where_nobody_answers_and_ends_with_the_last_code(
    capsys: pytest.CaptureFixture[str],
) -> None:
    pauses_s: list[float] = []

    def sleep(interval_s: float) -> None:
        pauses_s.append(interval_s)
        if len(pauses_s) == 2:
            raise KeyboardInterrupt

    chosen = Choices(bootstrap=NOBODY, bootstrap_is_said=True, output=OutputFormat.JSON)
    ctx = click.Context(cli, obj=chosen)
    assert watch_health(ctx, 7.0, 200, is_over_when_well=False, sleep=sleep) == 3
    printed = capsys.readouterr()
    assert pauses_s == [7.0, 7.0]
    # A stream of documents holds nothing else.
    assert (printed.out, printed.err.count("\n")) == ("", 2)


def test_who_may_not_describe_the_cluster_is_told_so_and_not_that_it_has_no_controller(
    capsys: pytest.CaptureFixture[str],
) -> None:
    server = AnsweringServer()
    assert main(["cluster", "health", "--bootstrap", server.address]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert "you may not call DescribeCluster" in printed.err
