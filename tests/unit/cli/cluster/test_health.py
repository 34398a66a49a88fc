"""What is not well is told in words, the worst first."""

from dataclasses import replace

from hightide import BrokerDescription, ClusterDescription, Complaint
from hightide_cli.cluster.health_report import (
    Holdings,
    coordinators_text,
    health_document,
    health_text,
    problems_of,
)

WELL = ClusterDescription(
    cluster_id="c",
    controller_id=1,
    controller_address="c1:1",
    controller_epoch=1,
    brokers=(BrokerDescription(1, "b1:1", True, 1, 6, 6), BrokerDescription(2, "b2:2", True, 2, 0, 6)),
    topic_count=1,
    partition_count=6,
    offline_partition_count=0,
    under_replicated_partition_count=0,
    under_min_isr_partition_count=0,
)


def test_moves_and_leaders_elsewhere_are_no_illness() -> None:
    busy = replace(
        WELL,
        reassignment_count=2,
        not_preferred_leader_count=3,
        reassignment_throttle_bytes_per_s=10,
    )
    assert problems_of(busy, Holdings()) == []
    document = health_document(busy, Holdings())
    assert document["healthy"] is True
    assert (document["moves_under_way"], document["not_preferred_leaders"]) == (2, 3)
    assert document["throttle_bytes_per_s"] == 10


def test_a_cluster_that_leaders_coordinate_misses_no_controller() -> None:
    led = replace(WELL, controller_epoch=0, coordination="leaders", complaints=(Complaint("t-0", "no JSON"),))
    assert problems_of(led, Holdings()) == ["broker 1 complains of 1 thing"]
    document = health_document(led, Holdings())
    assert (document["coordination"], document["controller"]) == ("leaders", None)
    assert "none: leaders decide for themselves" in health_text(led, Holdings())


def test_a_replica_that_is_moved_to_is_not_missing() -> None:
    moving = replace(WELL, under_replicated_partition_count=3)
    assert problems_of(moving, Holdings(arriving=2)) == [
        "1 of 6 partitions with a replica that is not in sync"
    ]
    assert problems_of(moving, Holdings(arriving=3)) == []
    assert health_document(moving, Holdings(arriving=3))["under_replicated_partitions"] == 0


def test_everything_that_is_not_well_is_told_the_worst_first() -> None:
    ill = replace(
        WELL,
        brokers=(WELL.brokers[0], replace(WELL.brokers[1], alive=False)),
        offline_partition_count=1,
        under_min_isr_partition_count=2,
        under_replicated_partition_count=6,
        complaints=(Complaint("/somewhere", "no JSON"),),
    )
    holdings = Holdings({(1, 0): 1, (1, 2): 3}, {3: "nobody there"})
    then = "check its disk, then start the broker again"
    assert problems_of(ill, holdings) == [
        "1 of 6 partitions without a leader",
        "2 of 6 partitions with fewer replicas in sync than min.insync.replicas",
        "6 of 6 partitions with a replica that is not in sync",
        "broker 2 is not alive",
        "broker 3 is registered and does not answer: nobody there",
        f"log directory 0 of broker 1 has failed, with 1 replica: {then}",
        f"log directory 2 of broker 1 has failed, with 3 replicas: {then}",
        "the controller complains of 1 thing",
    ]
    document = health_document(ill, holdings)
    assert document["healthy"] is False
    assert document["dead_brokers"] == [2]
    assert document["complaints"] == [{"subject": "/somewhere", "message": "no JSON"}]
    assert document["failed_log_directories"] == [
        {"broker": 1, "log_directory": 0, "replicas": 1},
        {"broker": 1, "log_directory": 2, "replicas": 3},
    ]


def test_who_coordinates_the_groups_is_told() -> None:
    assert coordinators_text(["a:1"]) == "a:1"
    assert coordinators_text(["a:1", "b:1", "a:1"]) == "a:1, b:1"
    assert coordinators_text(["a:1", None, "b:1", None]) == "a:1, b:1; none for shard 1, 3"
    assert coordinators_text([None]) == coordinators_text([None, None]) == "none: consumer groups rest"
    assert coordinators_text([]) == "none was ever started"


def test_a_cluster_that_never_had_coordinators_is_well_without() -> None:
    assert problems_of(WELL, Holdings()) == []
    assert problems_of(WELL, Holdings(coordinators=("a:1", "b:1"))) == []


def test_groups_that_nobody_coordinates_are_not_well() -> None:
    (alone,) = problems_of(WELL, Holdings(coordinators=(None,)))
    assert alone.startswith("no consumer coordinator is active, so that consumer groups rest: ")
    assert "start `hightide-coordinator`" in alone
    (some,) = problems_of(WELL, Holdings(coordinators=("a:1", None, "b:1", None)))
    assert some.startswith("no consumer coordinator is active for shards 1, 3 of 4, so that")
    (one,) = problems_of(WELL, Holdings(coordinators=("a:1", None)))
    assert one.startswith("no consumer coordinator is active for shard 1 of 2, so that")
    assert health_document(WELL, Holdings(coordinators=(None,)))["healthy"] is False
