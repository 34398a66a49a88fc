"""What the attacked cluster has now, to be named in requests."""

from __future__ import annotations

import threading
from typing import Any, Final

import grpc
from fuzz.channels import open_channel
from fuzz.messages import LiveIds
from fuzz.plan import FUZZED_GROUPS, FUZZED_TOPICS, AttackPlan
from hightide import Admin
from hightide.errors import HightideError
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.broker_service_pb2_grpc import BrokerServiceStub
from hightide.v1.controller_service_pb2_grpc import ControllerServiceStub

_PAUSE_S: Final = 2.0
_CALL_S: Final = 5.0
_PARTITIONS: Final = 3
#: What is the same in every cluster.
ALWAYS: Final[dict[str, list[Any]]] = {
    "topic": [*FUZZED_TOPICS, *FUZZED_TOPICS, "no-such-topic"],
    "topics": [*FUZZED_TOPICS],
    "group": [*FUZZED_GROUPS],
    "consumer_id": ["a", "b"],
    "instance_id": ["", "i"],
    "pattern": ["fuzz-[0-3]", ""],
    "assignor": ["range", "roundrobin", "sticky", ""],
    "session_timeout_ms": [6_000],
    "generation": [0, 1, 2],
    "sequence": [0, 1, 2],
    "partition": [0, 1, 2],
    "leader_epoch": [-1, 0, 1],
    "leader": [1, 2, 3, -1],
    "isr": [1, 2, 3],
    "replicas": [1, 2, 3],
    "broker_id": [1, 2, 3],
    "replica_id": [1, 2, 3],
    "controller_id": [1, 2],
    "replication_factor": [1, 2, 3],
    "offset": [0, 1, 5],
    "fetch_offset": [0, 1, 5],
    "max_wait_ms": [0, 100],
    "timeout_ms": [0, 500],
    "min_bytes": [0, 1],
    "max_bytes": [1, 1_000_000],
    "max_records": [0, 10],
    "port": [1],
    "host": ["127.0.0.1"],
}


class LiveCluster:
    """Keeps the topics that are attacked in being, and notes the ids of what there is. `ids` is replaced as a
    whole, so each thread may read it at any time."""

    def __init__(self, plan: AttackPlan) -> None:
        self._plan = plan
        self.ids = LiveIds(ALWAYS)
        self._producers: list[int] = []
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="live-cluster", daemon=True)

    def begin(self) -> None:
        """Learn what there is, and go on learning until `end`."""
        self._refresh()
        self._thread.start()

    def end(self) -> None:
        """Stop learning."""
        self._stopped.set()
        self._thread.join(60)

    def _run(self) -> None:
        while not self._stopped.wait(_PAUSE_S):
            self._refresh()

    def _refresh(self) -> None:
        """An attacked cluster need not answer; then what was known stays."""
        self._make_topics()
        try:
            self._learn()
        except grpc.RpcError:
            return

    def _make_topics(self) -> None:
        try:
            with Admin(self._plan.bootstrap, timeout_ms=5_000) as admin:
                for topic in set(FUZZED_TOPICS) - set(admin.list_topics()):
                    admin.create_topic(topic, _PARTITIONS, 3, configs={"retention.bytes": "10000000"})
        except HightideError:
            return

    def _learn(self) -> None:
        ports = [each for each in self._plan.ports if each.process.startswith("broker-")]
        with open_channel(self._plan, ports[0]) as channel:
            broker: Any = BrokerServiceStub(channel)
            told = broker.GetMetadata(broker_pb2.GetMetadataRequest(topics=FUZZED_TOPICS), timeout=_CALL_S)
            if len(self._producers) < 10:
                started = broker.InitProducerId(broker_pb2.InitProducerIdRequest(), timeout=_CALL_S)
                self._producers.append(started.producer_id)
        address = f"{told.controller.host}:{told.controller.port}"
        active = [each for each in self._plan.ports if each.address == address]
        epochs: list[int] = []
        if active:
            with open_channel(self._plan, active[0]) as channel:
                controller: Any = ControllerServiceStub(channel)
                cluster = controller.DescribeCluster(controller_pb2.DescribeClusterRequest(), timeout=_CALL_S)
                epochs = [each.broker_epoch for each in cluster.brokers]
        self.ids = LiveIds(
            ALWAYS
            | {
                "topic_id": [each.topic_id for each in told.topics if each.topic_id],
                "cluster_id": [told.cluster_id],
                "controller_epoch": [told.controller_epoch, told.controller_epoch, told.controller_epoch + 1],
                "broker_epoch": epochs,
                "producer_id": list(self._producers),
            }
        )
