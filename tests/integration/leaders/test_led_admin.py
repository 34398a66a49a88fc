"""A cluster whose leaders decide, as its clients use it: the SDK knows nothing of the difference."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import pytest
from hightide import Acl, Admin, Consumer, Producer, Quota, TopicPartition
from hightide.errors import (
    ElectionNotNeededError,
    EligibleLeadersNotAvailableError,
    InvalidAssignmentError,
    InvalidConfigError,
    InvalidPartitionCountError,
    InvalidReplicationFactorError,
    InvalidTopicNameError,
    NoControllerError,
    NoReassignmentError,
    TopicAlreadyExistsError,
    UnknownBrokerError,
    UnknownTopicError,
)
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.traces.span_files import read_spans
from hightide_runtime.telemetry.span_kinds import (
    STATE_CHANGE,
    STATE_CHANGE_COMPLETED,
    STATE_CHANGE_RECEIVED,
)
from hightide_runtime.znodes.coordination_znode import Coordination
from kazoo.client import KazooClient

pytestmark = pytest.mark.cluster

CALL_S = WAIT_S = 30.0
LIFE = (STATE_CHANGE, STATE_CHANGE_RECEIVED, STATE_CHANGE_COMPLETED)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """Three brokers and a coordinator; no controller."""
    directory = tmp_path_factory.mktemp("led")
    with LocalCluster(directory, coordinators=1, coordination=Coordination.LEADERS) as started:
        yield started


def replicas(admin: Admin, topic: str) -> list[tuple[int, ...]]:
    return [each.replicas for each in admin.describe_topics([topic])[0].partitions]


def leaders(admin: Admin, topic: str) -> list[int | None]:
    return [each.leader for each in admin.describe_topics([topic])[0].partitions]


def read_on(consumer: Consumer, found: list[bytes | None]) -> int:
    """Read more into `found`; how many are there then."""
    found += [record.value for record in consumer.poll(500)]
    return len(found)


def test_a_topic_is_led_when_it_is_there_and_gone_when_it_is_deleted(admin: Admin) -> None:
    created = admin.create_topic("tide", 4, 3)
    assert [each.partition for each in created.partitions] == [0, 1, 2, 3]
    assert all(each.leader == each.replicas[0] for each in created.partitions)
    assert created.configs == {"min.insync.replicas": "2"}
    with pytest.raises(TopicAlreadyExistsError):
        admin.create_topic("tide", 4, 3)
    admin.delete_topic("tide")
    with pytest.raises(UnknownTopicError):
        admin.describe_topics(["tide"])
    with pytest.raises(UnknownTopicError):
        admin.delete_topic("tide")


@pytest.mark.parametrize(
    ("create", "refusal"),
    [
        (lambda admin: admin.create_topic("no name", 1, 1), InvalidTopicNameError),
        (lambda admin: admin.create_topic("tide", 0, 1), InvalidPartitionCountError),
        (lambda admin: admin.create_topic("tide", 1, 4), InvalidReplicationFactorError),
        (lambda admin: admin.create_topic("tide", assignment=[[1, 1]]), InvalidAssignmentError),
        (lambda admin: admin.create_topic("tide", assignment=[[1, 9]]), InvalidAssignmentError),
        (lambda admin: admin.create_topic("tide", 1, 1, configs={"flush": "never"}), InvalidConfigError),
        (
            lambda admin: admin.create_topic("tide", 1, 1, configs={"min.insync.replicas": "2"}),
            InvalidConfigError,
        ),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_errors_of_a_controller(
    admin: Admin, create: Callable[[Admin], object], refusal: type[Exception]
) -> None:
    with pytest.raises(refusal):
        create(admin)
    assert "tide" not in admin.list_topics()


def test_what_would_be_is_told_and_not_done(admin: Admin, topic: str) -> None:
    created = admin.create_topic("tide", 2, 3, validate_only=True)
    assert [each.leader for each in created.partitions] == [None, None]
    grown = admin.add_partitions(topic, 5, validate_only=True)
    assert len(grown.partitions) == 5
    assert admin.alter_topic_config(topic, {"retention.ms": "5"}, validate_only=True)["retention.ms"] == "5"
    admin.delete_topic(topic, validate_only=True)
    assert sorted(admin.list_topics()) == [topic]
    assert len(replicas(admin, topic)) == 2
    assert "retention.ms" not in admin.describe_topics([topic])[0].configs


def test_records_are_written_and_read_in_partitions_that_were_added(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    grown = admin.add_partitions(topic, 3)
    assert [each.leader for each in grown.partitions][2] is not None
    cluster.wait_isr(topic)
    with Producer(cluster.bootstrap, acks="all") as producer:
        for partition in range(3):
            producer.send(topic, b"%d" % partition, partition=partition)
        producer.flush()
    with Consumer(cluster.bootstrap, topics=[topic], group=topic) as consumer:
        found: list[bytes | None] = []
        wait_until("three records", lambda: read_on(consumer, found) == 3, WAIT_S)
    assert sorted(filter(None, found)) == [b"0", b"1", b"2"]
    with pytest.raises(InvalidPartitionCountError):
        admin.add_partitions(topic, 3)


def test_settings_are_those_of_the_topic_and_die_with_it(admin: Admin, topic: str) -> None:
    admin.alter_topic_config(topic, {"retention.ms": "5000", "flush": "fsync"})
    assert admin.alter_topic_config(topic, reset=["flush"])["retention.ms"] == "5000"
    configs = admin.describe_topics([topic])[0].configs
    assert (configs["retention.ms"], "flush" in configs) == ("5000", False)
    with pytest.raises(InvalidConfigError):
        admin.alter_topic_config(topic, {"min.insync.replicas": "4"})
    admin.delete_topic(topic)
    admin.create_topic(topic, assignment=[[1, 2, 3]])
    assert "retention.ms" not in admin.describe_topics([topic])[0].configs


def test_a_partition_moves_and_its_leader_follows(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    outcomes = admin.reassign_partitions({TopicPartition(topic, 0): (3, 2)})
    assert [each.error for each in outcomes] == [None]
    wait_until("the move is done", lambda: replicas(admin, topic)[0] == (3, 2), WAIT_S)
    wait_until("the preferred replica leads", lambda: leaders(admin, topic)[0] == 3, WAIT_S)
    assert admin.list_reassignments().reassignments == ()
    (unknown,) = admin.reassign_partitions({TopicPartition(topic, 7): (3, 2)})
    assert unknown.error is not None


def test_a_move_that_waits_for_a_dead_broker_is_listed_and_taken_back(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    partition = TopicPartition(topic, 1)
    admin.reassign_partitions({partition: (2, 3)})
    wait_until("broker 1 is free", lambda: replicas(admin, topic)[1] == (2, 3), WAIT_S)
    cluster.pause("broker-1")
    (asked,) = admin.reassign_partitions({partition: (2, 1)})
    assert asked.error is None
    (move,) = admin.list_reassignments().reassignments
    assert (move.partition, tuple(move.original), tuple(move.target)) == (partition, (2, 3), (2, 1))
    (cancelled,) = admin.cancel_reassignments([partition])
    assert cancelled.error is None
    assert replicas(admin, topic)[1] == (2, 3)
    (again,) = admin.cancel_reassignments([partition])
    assert isinstance(again.error, NoReassignmentError)
    cluster.resume("broker-1")
    cluster.wait_isr(topic)


def test_an_operator_elects_the_preferred_leader(cluster: LocalCluster, admin: Admin, topic: str) -> None:
    cluster.wait_isr(topic)
    (still,) = admin.elect_leaders("preferred", [TopicPartition(topic, 0)])
    assert (still.leader, still.error) == (1, None)
    (needless,) = admin.elect_leaders("unclean", [TopicPartition(topic, 0)])
    assert isinstance(needless.error, ElectionNotNeededError)


def test_a_drained_broker_leads_nothing_until_it_is_started_again(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    cluster.wait_isr(topic)
    assert admin.drain_broker(2) == 0
    assert all(leader != 2 for leader in leaders(admin, topic))
    (refused,) = admin.elect_leaders("preferred", [TopicPartition(topic, 1)])
    assert isinstance(refused.error, EligibleLeadersNotAvailableError)
    later = f"{topic}-later"
    admin.create_topic(later, assignment=[[2, 3]])
    assert leaders(admin, later) == [3], "also of what is created then"
    cluster.terminate("broker-2")
    cluster.restart("broker-2")
    wait_until("it leads again", lambda: leaders(admin, topic)[1] == leaders(admin, later)[0] == 2, WAIT_S)
    admin.delete_topic(later)


def test_a_broker_that_is_not_there_cannot_be_drained(cluster: LocalCluster, admin: Admin) -> None:
    with pytest.raises(UnknownBrokerError):
        admin.drain_broker(9)
    with grpc.insecure_channel(cluster.brokers[1]) as channel:
        for broker_id, reason in ((9, "is not alive"), (-1, "is not alive"), (2, "has registered anew")):
            request = controller_pb2.ControlledShutdownRequest(broker_id=broker_id, broker_epoch=1)
            with pytest.raises(grpc.RpcError) as refused:
                ControllerServiceStub(channel).ControlledShutdown(request, timeout=CALL_S)
            assert reason in str(refused.value)


def test_the_cluster_is_described_without_a_controller(
    cluster: LocalCluster, admin: Admin, topic: str
) -> None:
    cluster.wait_isr(topic)
    described = admin.describe_cluster()
    assert described.coordination == "leaders"
    assert [each.broker_id for each in described.brokers if each.alive] == [1, 2, 3]
    assert (described.topic_count, described.partition_count, described.offline_partition_count) == (1, 2, 0)
    assert described.controller_id in (1, 2, 3)
    assert described.healthy


def test_nonsense_in_the_znode_of_a_topic_is_told_and_left_alone(cluster: LocalCluster, admin: Admin) -> None:
    operator = KazooClient(hosts=cluster.zookeeper)
    operator.start()
    try:
        operator.create("/brokers/topics/nonsense", b"{")
        with pytest.raises(TopicAlreadyExistsError):
            admin.create_topic("nonsense", 1, 1)
        with pytest.raises(UnknownTopicError):
            admin.delete_topic("nonsense")
        (complaint,) = admin.describe_cluster().complaints
        assert complaint.subject == "/brokers/topics/nonsense"
        assert operator.get("/brokers/topics/nonsense")[0] == b"{"
        operator.delete("/brokers/topics/nonsense")
    finally:
        operator.stop()
        operator.close()


def test_a_speed_limit_of_moves_that_cannot_be_read_is_told(cluster: LocalCluster, admin: Admin) -> None:
    operator = KazooClient(hosts=cluster.zookeeper)
    operator.start()
    try:
        operator.create("/config/reassignment", b"fast", makepath=True)
        (complaint,) = admin.describe_cluster().complaints
        assert complaint.subject == "/config/reassignment"
        operator.delete("/config/reassignment")
        assert admin.describe_cluster().complaints == ()
    finally:
        operator.stop()
        operator.close()


def test_any_broker_answers(cluster: LocalCluster, topic: str) -> None:
    for broker_id, address in cluster.brokers.items():
        with grpc.insecure_channel(address) as channel:
            stub = ControllerServiceStub(channel)
            answer = stub.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=CALL_S)
            assert answer.controller.id == broker_id


def test_the_life_of_the_state_changes_of_a_topic_is_one_trace(cluster: LocalCluster, topic: str) -> None:
    """Requested by the broker that created it; received and completed by each broker."""

    def lives() -> dict[str, set[str]]:
        spans = [span for span in read_spans(cluster.trace_directory) if span.name.startswith(STATE_CHANGE)]
        trace = next(
            each.trace_id
            for each in spans
            if each.name == STATE_CHANGE and f"{topic}-0" in str(each.attributes["partition_sample"])
        )
        of_topic = [each for each in spans if each.trace_id == trace]
        return {name: {each.instance for each in of_topic if each.name == name} for name in LIFE}

    everyone = set(map(str, cluster.brokers))
    found = wait_until(
        "all have completed", lives, WAIT_S, lambda found: found[STATE_CHANGE_COMPLETED] == everyone
    )
    assert found[STATE_CHANGE_RECEIVED] == everyone
    assert len(found[STATE_CHANGE]) == 1


def test_the_topic_that_is_meant_by_its_id_is_deleted_and_no_other(cluster: LocalCluster, topic: str) -> None:
    with Admin(cluster.bootstrap) as admin, grpc.insecure_channel(cluster.brokers[1]) as channel:
        request = controller_pb2.DeleteTopicRequest(topic=topic, topic_id=bytes(16))
        with pytest.raises(grpc.RpcError) as refused:
            ControllerServiceStub(channel).DeleteTopic(request, timeout=CALL_S)
        assert "another topic has this name now" in str(refused.value)
        assert topic in admin.list_topics()


def test_quotas_and_acls_are_changed_at_any_broker_and_read_at_any_other(
    cluster: LocalCluster, admin: Admin
) -> None:
    """Many changes at once, each by a broker of its own: none is lost."""
    with ExitStack() as stack:
        brokers = [stack.enter_context(Admin(address)) for address in cluster.brokers.values()]
        rules = [
            Acl(f"client/c-{number}", "allow", "read", "topic", "tide") for number in range(len(brokers))
        ]
        seven = Quota(calls_max=7)
        with ThreadPoolExecutor() as pool:
            list(pool.map(lambda each, rule: each.alter_acls(add=[rule]), brokers, rules))
            list(pool.map(lambda each, rule: each.alter_quota(rule.principal, seven), brokers, rules))
        for each in brokers:
            assert set(each.describe_acls().acls) == set(rules)
            assert each.describe_quotas() == {rule.principal: seven for rule in rules}
            assert each.check_access("client/c-0", "read", "topic", "tide").is_allowed
            assert not each.check_access("client/c-0", "write", "topic", "tide").is_allowed
        assert admin.alter_acls(remove=rules).removed_count == len(rules)
        for rule in rules:
            assert admin.alter_quota(rule.principal, reset=["calls_max"]) == Quota()


def test_what_only_a_controller_can_do_is_refused_and_it_is_said_what_to_do_instead(admin: Admin) -> None:
    with pytest.raises(NoControllerError, match=r"this cluster has none.*hightide broker drain"):
        admin.resign_controller()
