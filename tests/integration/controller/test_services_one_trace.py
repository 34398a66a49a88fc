"""A failover, a takeover, a topic that comes and goes: each is one trace with one root, on real processes."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

import grpc
import pytest
from hightide import Admin, Producer, TopicPartition
from hightide.v1 import broker_service_pb2 as pb
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.controller_service_pb2 import CreateTopicRequest
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub
from hightide.v1.metadata_pb2 import TopicMetadata
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.traces.trace_lookup import SpanRecord, Trace, read_spans, traces_of
from hightide_runtime.telemetry import span_kinds as kinds
from hightide_runtime.telemetry.trace_context import new_root_traceparent, trace_id_of
from integration.controller.crashing_controller import CRASH_PLAN, plan_crash

pytestmark = pytest.mark.cluster

PROGRAM = (sys.executable, str(Path(__file__).with_name("crashing_controller.py")))
HEALED_S = 60.0
SESSION_MS = 6_000


class Stage:
    """A cluster of three brokers and two controllers that die where they are told to."""

    def __init__(self, cluster: LocalCluster, plan: Path) -> None:
        self.cluster = cluster
        self.plan = plan
        self.admin = Admin(cluster.bootstrap)
        self._seen: set[str] = set()

    def create_topic(self, name: str) -> None:
        """Three partitions on all brokers, all led by broker 1."""
        self.admin.create_topic(name, assignment=[[1, 2, 3], [1, 3, 2], [1, 2, 3]])

    def write(self, topic: str, partitions: int = 3) -> None:
        """One record into each partition, acknowledged by all in sync."""
        with Producer(self.cluster.bootstrap) as producer:
            for number in range(partitions):
                producer.send(topic, b"x", partition=number)

    def whole(self) -> None:
        """Wait until every replica of every topic is in sync: a controller that is to die of what comes next
        must not die of a replica that comes back. And until the controller has read that, and told brokers:
        else it decides by what was before, some of it twice."""

        def is_whole() -> bool:
            described = self.admin.describe_topics()
            partitions = [each for topic in described for each in topic.partitions]
            return all(set(each.isr) == set(each.replicas) for each in partitions) and all(
                self.told_epochs(topic.name) == [each.partition_epoch for each in topic.partitions]
                for topic in described
            )

        wait_until("all replicas are in sync", is_whole, HEALED_S)

    def told_epochs(self, topic: str) -> list[int]:
        """The partition epochs that broker 2 was told of last."""
        return [each.partition_epoch for each in self.told(2, topic).partitions]

    def note(self) -> None:
        """What is traced so far does not count."""
        self._seen = {span.trace_id for span in self.spans()}

    def new_trace(self, root: str, where: Callable[[SpanRecord], bool] = lambda _: True) -> Trace:
        """The one trace with such a root, once its root is written; there is no other since `note`."""

        def found() -> list[Trace]:
            traces = traces_of([span for span in self.spans() if span.trace_id not in self._seen])
            return [
                t for t in traces if any(s.name == root and not s.parent_id and where(s) for s in t.spans)
            ]

        wait_until(f"a {root} is traced", lambda: bool(found()), HEALED_S)
        (trace,) = found()
        return trace

    def settled(self, root: str, step: str, by: Collection[str] = ()) -> Trace:
        """As `new_trace`, once a step of the brokers is written too, by each of these where any are named."""

        def is_written() -> bool:
            instances = {span.instance for span in self.new_trace(root).named(step)}
            return bool(instances) and instances >= set(by)

        wait_until(f"{step} is traced", is_written, HEALED_S)
        return self.new_trace(root)

    def spans(self) -> list[SpanRecord]:
        """All that is written so far."""
        return read_spans(self.cluster.trace_directory)

    def told_traceparent(self, broker_id: int, topic: str) -> str:
        """What a broker answers to clients about partition 0."""
        return str(self.told(broker_id, topic).partitions[0].traceparent)

    def told(self, broker_id: int, topic: str) -> TopicMetadata:
        """What a broker answers to clients."""
        with grpc.insecure_channel(self.cluster.brokers[broker_id]) as channel:
            request = pb.GetMetadataRequest(topics=[topic])
            (told,) = BrokerServiceStub(channel).GetMetadata(request, timeout=30).topics
        return told


@pytest.fixture(scope="module")
def stage(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stage]:
    directory = tmp_path_factory.mktemp("traces")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CRASH_PLAN, str(directory / "crash-plan"))
        with LocalCluster(
            directory / "cluster",
            brokers=3,
            coordinators=1,
            session_timeout_ms=SESSION_MS,
            controller_program=PROGRAM,
        ) as cluster:
            built = Stage(cluster, directory / "crash-plan")
            yield built
            built.admin.close()


@pytest.fixture(autouse=True)
def whole_again(stage: Stage) -> Iterator[None]:
    """A test that fails leaves the next one a whole cluster."""
    yield
    stage.plan.unlink(missing_ok=True)
    stage.cluster.restore()


def one_root(trace: Trace) -> SpanRecord:
    (root,) = trace.roots
    return root.span


def test_the_six_steps_of_a_failover_are_one_trace_and_clients_are_told_its_root(stage: Stage) -> None:
    stage.create_topic("killed")
    stage.write("killed")
    stage.note()
    killed_us = int(stage.cluster.kill("broker-1") * 1e6)
    stage.write("killed")
    # Which the leader writes behind the first commit.
    # Both of them: of one that has written half of its steps, the steps would not be in order.
    trace = stage.settled(kinds.FAILOVER, kinds.FOLLOWERS_CONNECT, {"2", "3"})
    root = one_root(trace)
    assert root.attributes["reason"] == "process_died"
    assert root.attributes["broker_ids"] == "1"
    assert root.attributes["partition_count"] == 3
    # It begins with the break of the connection, not with the end of the session.
    assert 0 <= root.start_us - killed_us < SESSION_MS * 1_000
    steps = [
        trace.named(name)[0]
        for name in (
            kinds.BROKER_DOWN,
            kinds.BROKER_WATCHER_TRIGGERED,
            kinds.LEADERSHIP_CHANGE,
            kinds.INFORM_BROKER,
            kinds.BECOME_LEADER,
            kinds.FOLLOWERS_CONNECT,
            kinds.FIRST_COMMIT,
        )
    ]
    assert steps == sorted(steps, key=lambda span: span.start_us)
    assert steps[0].end_us <= steps[1].end_us <= steps[2].end_us
    informed = {span.span_id: span for span in trace.named(kinds.INFORM_BROKER)}
    for became in (*trace.named(kinds.BECOME_LEADER), *trace.named(kinds.BECOME_FOLLOWER)):
        assert int(became.attributes["partition_count"]) > 0
        assert str(informed[became.parent_id].attributes["broker_id"]) == became.instance
    assert {span.instance for span in trace.named(kinds.BECOME_FOLLOWER)} <= {"2", "3"}
    expected = {f"00-{root.trace_id}-{root.span_id}-01"}

    def told() -> set[str]:
        return {stage.told_traceparent(broker_id, "killed") for broker_id in (2, 3)}

    wait_until(f"both tell clients of {expected}", lambda: told() == expected, HEALED_S)
    stage.cluster.restart("broker-1")
    stage.whole()


def test_a_broker_that_stops_is_one_trace_and_so_is_one_that_stands_still(stage: Stage) -> None:
    stage.create_topic("stopped")
    stage.write("stopped")
    stage.note()
    stage.cluster.terminate("broker-1")
    stage.write("stopped")
    root = one_root(stage.settled(kinds.FAILOVER, kinds.FIRST_COMMIT))
    assert root.attributes["reason"] == "controlled_shutdown"
    stage.cluster.restart("broker-1")
    stage.whole()
    stage.create_topic("paused")
    stage.note()
    stage.cluster.pause("broker-1")
    try:
        stage.write("paused")
        trace = stage.settled(kinds.FAILOVER, kinds.FIRST_COMMIT)
    finally:
        stage.cluster.resume("broker-1")
    root = one_root(trace)
    assert root.attributes["reason"] == "pings_unanswered"
    assert root.attributes["broker_ids"] == "1"
    stage.cluster.wait_brokers_alive()
    stage.whole()


@pytest.mark.parametrize("point", ["before StoreLeaderAndIsr 1", "before StoreCommitted 1"])
def test_whoever_takes_over_joins_the_trace_of_the_failover_that_a_controller_died_of(
    stage: Stage, point: str
) -> None:
    topic = f"twice-{point.split()[1].lower()}"
    stage.create_topic(topic)
    stage.write(topic)
    lost = stage.cluster.active_controller()
    stage.note()
    plan_crash(stage.plan, point)
    stage.cluster.kill("broker-1")
    stage.write(topic)
    trace = stage.settled(kinds.FAILOVER, kinds.FIRST_COMMIT)
    one_root(trace)
    controllers = {f"controller-{span.instance}" for span in trace.spans if span.service == "controller"}
    assert controllers == {"controller-1", "controller-2"}
    assert lost[-1] in {span.instance for span in trace.named(kinds.BROKER_DOWN)}
    # Where nothing was written yet, the broker still looks alive in ZooKeeper, and is found dead once more.
    is_written = "Committed" in point
    assert len(trace.named(kinds.CONTROLLER_REPLACED)) == is_written
    assert ("carried_on" in trace.roots[0].span.attributes) == is_written
    # Who died may have told the brokers who lives, if its write took long; but of no decision.
    informed = (span for span in trace.named(kinds.INFORM_BROKER) if span.attributes["partition_count"])
    assert {span.instance for span in informed} == {"12".replace(lost[-1], "")}
    takeover = stage.new_trace(kinds.CONTROLLER_FAILOVER)
    assert [child.span.name for child in takeover.roots[0].children][:3] == [
        kinds.CONTROLLER_DETECTION,
        kinds.CONTROLLER_ELECTION,
        kinds.CONTROLLER_LOAD,
    ]
    assert takeover.named(kinds.CONTROLLER_FAN_OUT)
    stage.cluster.restart(lost)
    stage.cluster.restart("broker-1")
    stage.whole()


def test_a_topic_comes_and_goes_as_two_traces_that_its_id_names(stage: Stage) -> None:
    stage.note()
    stage.create_topic("short-lived")
    created = stage.settled(kinds.TOPIC_CREATION, kinds.BECOME_LEADER)
    root = one_root(created)
    assert (root.attributes["topic"], root.attributes["partition_count"]) == ("short-lived", 3)
    assert len(created.named(kinds.TOPIC_ZNODES)) == len(created.named(kinds.ZOOKEEPER_MULTI)) == 1
    assert len(created.named(kinds.INFORM_BROKER)) >= 3
    stage.admin.delete_topic("short-lived")
    deleted = stage.new_trace(kinds.TOPIC_DELETION)
    assert one_root(deleted).attributes["topic_id"] == root.attributes["topic_id"]
    assert deleted.named(kinds.DELETION_ZNODES)
    assert deleted.named(kinds.DELETION_STOP)


def test_a_move_is_one_trace_also_where_two_controllers_carry_it_out(stage: Stage) -> None:
    stage.admin.create_topic("moved", assignment=[[1, 2], [1, 2]])
    stage.write("moved", partitions=2)
    stage.note()
    stage.admin.reassign_partitions({TopicPartition("moved", 0): [2, 3]})
    trace = stage.new_trace(kinds.REASSIGNMENT)
    assert [child.span.name for child in trace.roots[0].children if child.span.name.startswith("reass")] == [
        kinds.MOVE_BEGIN,
        kinds.MOVE_CATCH_UP,
        kinds.MOVE_SWITCH,
        kinds.MOVE_STOP,
    ]
    root = one_root(trace)
    assert (root.attributes["partition_count"], root.attributes["partition_sample"]) == (1, "moved-0")
    assert root.attributes["move_sample"] == "moved-0 to 2,3"
    lost = stage.cluster.active_controller()
    stage.note()
    # The first writes are its beginning, the second ones would be its end.
    plan_crash(stage.plan, "before StoreWrites 2")
    stage.admin.reassign_partitions({TopicPartition("moved", 1): [2, 3]})
    trace = stage.new_trace(kinds.REASSIGNMENT)
    assert one_root(trace).attributes["carried_on"] is True
    assert trace.named(kinds.MOVE_BEGIN)[0].instance == lost[-1]
    assert trace.named(kinds.MOVE_STOP)[0].instance != lost[-1]
    stage.cluster.restart(lost)


def test_a_request_joins_the_trace_of_its_caller_and_names_the_one_that_it_began(stage: Stage) -> None:
    caller = new_root_traceparent()
    address = stage.cluster.address_of(stage.cluster.active_controller())
    with grpc.insecure_channel(address) as channel:
        request = CreateTopicRequest(topic="asked-for", partition_count=1, replication_factor=3)
        metadata = (("traceparent", caller),)
        ControllerServiceStub(channel).CreateTopic(request, timeout=30, metadata=metadata)

    def asked() -> list[SpanRecord]:
        spans = read_spans(stage.cluster.trace_directory)
        return [span for span in spans if span.trace_id == trace_id_of(caller)]

    wait_until("the request is traced", lambda: bool(asked()), HEALED_S)
    (span,) = asked()
    assert (span.name, span.attributes["method"]) == (kinds.REQUEST, "CreateTopic")
    assert span.parent_id == caller[36:52]
    began = span.attributes["trace_id"]
    # It is over once the brokers were told, which the caller does not wait for.
    created = stage.new_trace(kinds.TOPIC_CREATION, lambda root: root.trace_id == began)
    assert one_root(created).attributes["topic"] == "asked-for"


def test_no_service_writes_a_span_or_an_attribute_that_is_not_declared(stage: Stage) -> None:
    """Comes last: the other tests have had each service write what it has."""
    spans = read_spans(stage.cluster.trace_directory)
    declared = {kind.name: kind.service for kind in kinds.SPANS}
    assert {(span.name, span.service) for span in spans if span.service != "client"} <= set(declared.items())
    attributes = {name for span in spans if span.service != "client" for name in span.attributes}
    assert attributes <= {attribute.name for attribute in kinds.ATTRIBUTES}
