"""Brokers, controllers and ZooKeeper are killed and stopped under load; nothing acknowledged is lost. What
needs no controller is also done to a cluster that has none.

Every test is a `FaultDrill`: when its with-block ends, each record that was acknowledged must be there,
once, in
order for its key, no client may have seen an error, ISR must be AR again, and the logs of all replicas must
be byte-identical. The tests share one cluster and leave it whole.
"""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future

import pytest
from adversary.batches import good_batch
from adversary.control import ControlPlane
from adversary.raw_client import Answer, name_of
from adversary.target import Target, code_in, fetch_result, produce_result
from hightide import Admin
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_local.cluster import LocalCluster
from hightide_local.histories.anomalies import READS_OF_A_DEPOSED_LEADER
from hightide_local.histories.drill import HEALED_S, FaultDrill, differences_of, high_watermarks
from hightide_local.histories.waiting import wait_until
from hightide_runtime.znodes.cluster_znodes import BrokerZnode, ControllerZnode
from hightide_runtime.znodes.coordination_znode import Coordination
from integration.controller.session_theft import end_session_of
from kazoo.client import KazooClient

pytestmark = pytest.mark.cluster

# Longer than anybody who is not stopped is slow.
SESSION_TIMEOUT_MS = 8_000
REPLICA_LAG_TIME_MAX_MS = 4_000
REQUEST_TIMEOUT_MS = 30_000


@pytest.fixture(
    scope="module",
    params=[Coordination.CONTROLLER, Coordination.LEADERS],
    ids=str,
)
def shared_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    directory = tmp_path_factory.mktemp("kill")
    with LocalCluster(
        directory,
        session_timeout_ms=SESSION_TIMEOUT_MS,
        replica_lag_time_max_ms=REPLICA_LAG_TIME_MAX_MS,
        coordination=request.param,
    ) as cluster:
        yield cluster


slow_without_controller = pytest.mark.parametrize(
    "shared_cluster",
    [Coordination.CONTROLLER, pytest.param(Coordination.LEADERS, marks=pytest.mark.soak)],
    ids=str,
    indirect=True,
)
with_controller = pytest.mark.parametrize("shared_cluster", [Coordination.CONTROLLER], ids=str, indirect=True)


@pytest.fixture
def cluster(shared_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """The cluster, whole again after a test that failed halfway, so that only that one is blamed."""
    yield shared_cluster
    running = shared_cluster.running()
    if not running:
        return  # the last test stops it
    for name in shared_cluster.names:
        if name in running:
            shared_cluster.resume(name)
        else:
            shared_cluster.restart(name, wait=False)
    shared_cluster.wait_ready()


@slow_without_controller
def test_killing_the_leader_three_times_in_a_row(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "leader-chase") as drill:
        for _ in range(3):
            leader = drill.leader()
            drill.kill(leader)
            drill.wait_for_other_leaders(leader)
            drill.wait_for_progress()
            drill.restart(leader)
            drill.wait_for_isr(3)
        drill.wait_for_progress()
        epoch = settled_epoch(cluster, drill)
        last = wait_until(
            "a broker tells of it", lambda: target_in_epoch(cluster, drill.topic, epoch), HEALED_S
        )
        assert last is not None
        late = last.send_produce(good_batch(last.topic_id, 0, [b"too late"]), leader_epoch=epoch - 1)
        assert code_in(late, produce_result) == "FENCED_LEADER_EPOCH"
        assert code_in(last.send_fetch(0, leader_epoch=epoch - 1), fetch_result) == "FENCED_LEADER_EPOCH"
        last.close()


def settled_epoch(cluster: LocalCluster, drill: FaultDrill) -> int:
    """The leader epoch of a partition whose leaders were killed three times. Without a controller the
    preferred replica leads again each time that it comes back, which is one epoch more."""
    if cluster.controllers:
        epoch = drill.describe()[0].leader_epoch
        assert epoch == 3
        return epoch
    wait_until("the preferred replica leads", lambda: drill.describe()[0].leader == 1, HEALED_S)
    return drill.describe()[0].leader_epoch


def test_killing_a_follower(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "follower-killed") as drill:
        follower = next(each for each in cluster.brokers if each != drill.leader())
        drill.kill(follower)
        drill.wait_for_isr(2)
        drill.wait_for_progress()
        drill.restart(follower)
        drill.wait_for_isr(3)
        drill.wait_for_progress()


@with_controller
def test_killing_the_active_controller_and_a_leader_at_once(cluster: LocalCluster) -> None:
    """The standby has to win the election first, and then to see that a broker died before its time."""
    with FaultDrill(cluster, "controller-killed") as drill:
        leader, controller = drill.leader(), cluster.active_controller(HEALED_S)
        cluster.kill(controller)
        drill.kill(leader)
        drill.wait_for_progress()
        drill.wait_for_other_leaders(leader)
        assert cluster.active_controller(HEALED_S) != controller
        cluster.restart(controller, wait=False)
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()


@with_controller
def test_a_controller_that_wakes_up_after_it_was_replaced_decides_nothing(
    cluster: LocalCluster,
) -> None:
    with FaultDrill(cluster, "zombie-controller", flush="fsync") as drill:
        zombie, leader = cluster.active_controller(HEALED_S), drill.leader()
        cluster.pause(zombie)
        end_session_of(cluster.zookeeper, ControllerZnode.path())
        assert cluster.active_controller(HEALED_S) != zombie
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        cluster.resume(zombie)
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        assert cluster.active_controller(HEALED_S) != zombie
        epochs = [each.leader_epoch for each in drill.describe()]
    assert epochs == [1, 1, 1], "somebody else decided beside the new controller"


def test_killing_all_brokers_at_once(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "all-killed", flush="fsync") as drill:
        for broker_id in cluster.brokers:
            drill.kill(broker_id)
        for broker_id in cluster.brokers:
            drill.restart(broker_id)
        drill.wait_for_progress()
        drill.wait_for_isr(3)


def test_zookeeper_is_killed_and_then_a_follower_that_nobody_can_take_out_of_the_isr(
    cluster: LocalCluster,
) -> None:
    """Leaders serve without ZooKeeper. But no ISR can shrink, so what a dead follower lacks is not
    acknowledged."""
    with FaultDrill(cluster, "zookeeper-killed") as drill:
        follower = next(each for each in cluster.brokers if each != drill.leader())
        control = ControlPlane(cluster.bootstrap)
        cluster.kill("zookeeper")
        drill.wait_for_progress()
        request = controller_pb2.CreateTopicRequest(
            topic="in-the-dark", partition_count=1, replication_factor=1
        )
        refused = control.create(request)
        assert refused.is_typed_error, refused
        assert refused.reason in {"ZOOKEEPER_UNAVAILABLE", "TIMED_OUT"}, refused
        control.close()
        drill.kill(follower)
        cluster.restart("zookeeper", wait=False)
        drill.wait_for_progress()
        drill.restart(follower)
        drill.wait_for_isr(3)


@slow_without_controller
def test_zookeeper_stalls_for_longer_than_any_session_lasts(cluster: LocalCluster) -> None:
    """When it goes on, it may find all sessions overdue at once: brokers and controllers have to come back as
    new. A leader that comes back after the new controller is replaced, and hears it when it is registered."""
    with FaultDrill(cluster, "zookeeper-stalled", flush="fsync", allowed=READS_OF_A_DEPOSED_LEADER) as drill:
        cluster.pause("zookeeper")
        overdue_s = time.monotonic() + 1.6 * SESSION_TIMEOUT_MS / 1000
        drill.wait_for_progress()
        wait_until("all sessions are overdue", lambda: time.monotonic() > overdue_s, HEALED_S)
        drill.wait_for_progress()
        cluster.resume("zookeeper")
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        leader = drill.leader()
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        drill.restart(leader)
        drill.wait_for_isr(3)


def test_a_leader_that_wakes_up_after_it_was_replaced_acknowledges_nothing(cluster: LocalCluster) -> None:
    """Requests wait in its socket while it is stopped, so that it reads them before it can hear what
    happened."""
    with FaultDrill(
        cluster, "zombie-leader", request_timeout_ms=2_000, allowed=READS_OF_A_DEPOSED_LEADER
    ) as drill:
        zombie_id = drill.leader()
        zombie = Target.beside_others(cluster.bootstrap, drill.topic)
        assert zombie.leader_id == zombie_id
        cluster.pause(f"broker-{zombie_id}")
        end_session_of(cluster.zookeeper, BrokerZnode.path(zombie_id))
        answers = [in_background(lambda: produce_aside(zombie)) for _ in range(5)]
        drill.wait_for_other_leaders(zombie_id)
        drill.wait_for_progress()
        cluster.resume(f"broker-{zombie_id}")
        outcomes = [answer.result(60) for answer in answers]
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        assert [outcome for outcome in outcomes if acknowledged(outcome)] == []
        zombie.close()


def test_a_follower_that_is_stopped_leaves_the_isr_and_comes_back(cluster: LocalCluster) -> None:
    """Stopped for less than its session, it is still registered: only the leader's timer takes it out."""
    with FaultDrill(cluster, "follower-stopped") as drill:
        follower = next(each for each in cluster.brokers if each != drill.leader())
        cluster.pause(f"broker-{follower}")
        drill.wait_for_isr(2)
        drill.wait_for_progress()
        cluster.resume(f"broker-{follower}")
        drill.wait_for_isr(3)
        drill.wait_for_progress()


def test_a_leader_that_is_asked_to_stop_hands_over_first(cluster: LocalCluster) -> None:
    with FaultDrill(cluster, "leader-terminated", request_timeout_ms=REQUEST_TIMEOUT_MS) as drill:
        leader = drill.leader()
        cluster.terminate(f"broker-{leader}")
        assert all(each.leader not in (None, leader) for each in drill.describe()), (
            "it went before it was replaced"
        )
        drill.wait_for_progress()
        slowest_ms = drill.load.slowest_ms
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
    assert slowest_ms < REQUEST_TIMEOUT_MS / 2, f"a record waited {slowest_ms:.0f} ms"


@slow_without_controller
def test_what_acks_1_promises_and_what_it_does_not(cluster: LocalCluster) -> None:
    """A record that only the leader has may go with the leader. It may not come back, nor take others with
    it."""
    with FaultDrill(cluster, "acks-1") as drill:
        # On a busy machine the leader may take the others out of the ISR before it dies. Then nobody else can
        # lead, and it has lost nothing when it comes back: once more.
        while not (leader := dies_with_a_record_of_its_own(cluster, drill)):
            drill.wait_for_isr(3)
        drill.wait_for_progress()
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()


def dies_with_a_record_of_its_own(cluster: LocalCluster, drill: FaultDrill) -> int:
    """The leader takes a record that no other replica gets, and dies. Who that was, once others lead; 0 where
    nobody else was in sync any more, and it was started again."""
    leader = drill.leader()
    followers = [each for each in cluster.brokers if each != leader]
    lone = Target.beside_others(cluster.bootstrap, drill.topic)
    for follower in followers:
        cluster.pause(f"broker-{follower}")
    answer = lone.send_produce(
        good_batch(lone.topic_id, 0, [b"only on the leader"]), acks=broker_pb2.ACKS_LEADER
    )
    drill.kill(leader)
    for follower in followers:
        cluster.resume(f"broker-{follower}")
    lone.close()
    assert acknowledged(answer)
    drill.note_aside(b"only on the leader")

    def is_decided() -> bool:
        return all(each.leader != leader for each in drill.describe())

    wait_until(f"broker {leader} leads no more", is_decided, HEALED_S)
    if any(each.isr == (leader,) for each in drill.describe()):
        drill.restart(leader)
        return 0
    drill.wait_for_other_leaders(leader)
    return leader


def answering(cluster: LocalCluster, topic: str, numbered: bytes) -> Target:
    """The topic's leader, as soon as it takes a numbered batch: without a controller another one may just be
    elected when all brokers are back."""
    found: list[Target] = []

    def takes_it() -> bool:
        found.append(Target.beside_others(cluster.bootstrap, topic))
        code = name_of(produce_result(found[-1].send_produce(numbered)).error_code)
        if code not in {"PARTITION_OFFLINE", "NOT_LEADER"}:
            return True
        found[-1].close()
        return False

    wait_until("a leader answers", takes_it, HEALED_S)
    return found[-1]


def append_at_leader(target: Target, batch: bytes) -> None:
    """Write a batch that nobody but the leader has to have."""
    taken = produce_result(target.send_produce(batch, acks=broker_pb2.ACKS_LEADER))
    assert (name_of(taken.error_code), taken.base_offset) == ("OK", target.next_offset)
    target.next_offset += 1


def test_without_enough_replicas_nothing_is_committed_so_those_that_left_may_lead(
    cluster: LocalCluster,
) -> None:
    topic = "not-enough"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(topic, assignment=[[1, 2, 3]], configs={"min.insync.replicas": "2"})
        cluster.wait_isr(topic)  # Without a controller it begins with the leader alone.
        target = Target(cluster.bootstrap, topic)
        leader = target.leader_id
        followers = [each for each in cluster.brokers if each != leader]
        for follower in followers:
            cluster.kill(f"broker-{follower}")
        # Without a controller only the leader's timer takes out the dead, and only where they lack something.
        append_at_leader(target, good_batch(target.topic_id, 0, [b"what they lack"]))
        wait_until(
            "an ISR of one",
            lambda: admin.describe_topics([topic])[0].partitions[0].isr == (leader,),
            HEALED_S,
        )

        def refused_at_once() -> bool:
            """Before the leader hears of the new ISR, it appends and then cannot acknowledge."""
            batch = good_batch(target.topic_id, 0, [b"asked of all"])
            code = name_of(produce_result(target.send_produce(batch)).error_code)
            assert code in {"NOT_ENOUGH_REPLICAS", "NOT_ENOUGH_REPLICAS_AFTER_APPEND"}
            target.next_offset += code != "NOT_ENOUGH_REPLICAS"
            return code == "NOT_ENOUGH_REPLICAS"

        wait_until("the leader knows that it is alone", refused_at_once, HEALED_S)
        append_at_leader(target, good_batch(target.topic_id, 0, [b"asked of one"]))
        numbered = good_batch(target.topic_id, 0, producer_id=10**9, producer_epoch=0, base_sequence=0)
        append_at_leader(target, numbered)
        again = produce_result(target.send_produce(numbered))
        assert name_of(again.error_code) == "NOT_ENOUGH_REPLICAS_AFTER_APPEND", "one replica stood for all"

        cluster.kill(f"broker-{leader}")
        for follower in followers:
            cluster.restart(f"broker-{follower}", wait=False)
        wait_until(
            "one of those that left leads, since they have all that was committed",
            lambda: (
                admin.describe_topics([topic])[0].partitions[0].leader in followers
                and len(admin.describe_topics([topic])[0].partitions[0].isr) == 2
            ),
            HEALED_S,
        )
        cluster.restart(f"broker-{leader}")
        wait_until(
            "three in-sync replicas",
            lambda: len(admin.describe_topics([topic])[0].partitions[0].isr) == 3,
            HEALED_S,
        )
        if not cluster.controllers:
            wait_until(
                "the preferred replica leads",
                lambda: admin.describe_topics([topic])[0].partitions[0].leader == leader,
                HEALED_S,
            )
    target.close()
    elected = answering(cluster, topic, numbered)
    again = produce_result(elected.send_produce(numbered))
    assert (name_of(again.error_code), again.base_offset) == ("OK", 1), "one record was acknowledged by all"
    elected.next_offset = 2
    elected.assert_unharmed()
    elected.close()


GARBAGE = {
    "/brokers/topics/no-json": b"{",
    "/brokers/topics/nothing": b"",
    "/brokers/topics/no-topic": b'{"topic_id": "short", "partitions": {"0": [1]}}',
    "/brokers/topics/no-brokers": b'{"topic_id": "' + b"0" * 32 + b'", "partitions": {"0": []}}',
    "/brokers/topics/unknown-brokers": b'{"topic_id": "' + b"1" * 32 + b'", "partitions": {"0": [77, 78]}}',
    "/brokers/topics/with a blank": b'{"topic_id": "' + b"2" * 32 + b'", "partitions": {"0": [1]}}',
    "/brokers/topics/deep": b"[" * 100_000,
    "/brokers/topics/binary": bytes(range(256)),
    "/brokers/topics/bad-state": b'{"topic_id": "' + b"3" * 32 + b'", "partitions": {"0": [1, 2, 3]}}',
    "/brokers/topics/bad-state/0": b"",
    "/brokers/topics/bad-state/0/leaderAndISR": b'{"leader": "one"}',
    "/brokers/topics/bad-state/seven": b"",
    "/brokers/ids/abc": b"{}",
    "/brokers/ids/77": b"no broker at all",
    "/config/topics/bad-settings": b'{"configs": {"flush": 7}}',
}


@with_controller
def test_garbage_in_zookeeper_stops_nobody(cluster: LocalCluster) -> None:
    """Not the active controller, not the one that takes over and reads it all, not a broker that starts."""
    operator = KazooClient(cluster.zookeeper, timeout=30.0)
    operator.start(60)
    try:
        with FaultDrill(cluster, "garbage") as drill:
            # All at once: the controller would see to a topic's partitions before the operator comes to them.
            writing = operator.transaction()
            for path, content in GARBAGE.items():
                writing.create(path, content)
            assert writing.commit() == list(GARBAGE)
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic("beside-garbage", 3, 3)
                controller, leader = cluster.active_controller(HEALED_S), drill.leader()
                cluster.kill(controller)
                drill.kill(leader)
                drill.wait_for_other_leaders(leader)
                drill.restart(leader)
                cluster.restart(controller, wait=False)
                drill.wait_for_isr(3)
                admin.create_topic("bad-settings", 3, 3)
                drill.wait_for_progress()
            for path in reversed(GARBAGE):
                operator.delete(path, recursive=True)
    finally:
        operator.stop()
        operator.close()


def test_a_registration_that_an_operator_deletes_heals_by_itself(cluster: LocalCluster) -> None:
    """The broker lives, and so does its session: only the znode is gone, which is all that others look at.
    Others lead until it hears of it, when it is registered again."""
    operator = KazooClient(cluster.zookeeper, timeout=30.0)
    operator.start(60)
    try:
        with FaultDrill(cluster, "registration-deleted", allowed=READS_OF_A_DEPOSED_LEADER) as drill:
            for broker_id in (drill.leader(), *cluster.brokers):
                path = BrokerZnode.path(broker_id)
                _, before = operator.get(path)
                operator.delete(path)
                wait_until(
                    "another registration",
                    lambda path=path, before=before: (  # type: ignore[misc]
                        (now := operator.exists(path)) and now.czxid > before.czxid
                    ),
                    HEALED_S,
                )
                drill.wait_for_isr(3)
                drill.wait_for_progress()
    finally:
        operator.stop()
        operator.close()


def test_after_all_of_it_the_stopped_replicas_are_byte_identical(cluster: LocalCluster) -> None:
    with Admin(cluster.bootstrap) as admin:
        topics = admin.describe_topics()
    ends = {topic.topic_id: high_watermarks(cluster, topic.name) for topic in topics}
    cluster.stop()
    found = [
        text for topic in topics for text in differences_of(cluster, topic.topic_id, ends[topic.topic_id])
    ]
    assert found == []
    assert sum(end for each in ends.values() for end in each.values()) > 1_000


def target_in_epoch(cluster: LocalCluster, topic: str, leader_epoch: int) -> Target | None:
    target = Target.beside_others(cluster.bootstrap, topic)
    if target.leader_epoch == leader_epoch:
        return target
    target.close()
    return None


def in_background(call: Callable[[], Answer]) -> "Future[Answer]":
    """Run a call in a thread of its own, that may outlive what it talks to."""
    future: Future[Answer] = Future()

    def run() -> None:
        future.set_result(call())

    threading.Thread(target=run, daemon=True).start()
    return future


def produce_aside(target: Target) -> Answer:
    return target.send_produce(good_batch(target.topic_id, 0, [b"written to the zombie"]), timeout_ms=20_000)


def acknowledged(answer: Answer) -> bool:
    return answer.ok and name_of(produce_result(answer).error_code) == "OK"
