"""What a broker tells of the time between becoming leader and its first commit."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import pytest
from adversary.batches import good_batch
from control_rig import ME, TOPIC_ID, Rig, decision, run
from hightide.batch.wire import ProducePartition, ProduceRequest
from hightide.v1.broker_service_pb2 import Acks
from hightide_broker.contract.data_calls import PartitionAppended
from hightide_broker.data.produce import ProduceHandler
from hightide_broker.data.producer_owners import ProducerOwners
from hightide_broker.replica.first_commit import FirstCommit
from hightide_local.traces.span_files import SpanRecord, read_spans
from hightide_runtime.serving.fair_limit import FairLimit, Holder
from hightide_runtime.system_clock import SystemClock
from hightide_runtime.telemetry.span_kinds import FIRST_COMMIT, FOLLOWERS_CONNECT
from hightide_runtime.telemetry.tracing import Telemetry


@dataclass
class Moved:
    """A clock that stands until it is moved."""

    now_us: int = 1_700_000_000_000_000

    def monotonic_ms(self) -> int:
        """The same time."""
        return self.now_us // 1000

    def wall_us(self) -> int:
        """The time that was set."""
        return self.now_us


def spans_in(path: Path) -> dict[str, SpanRecord]:
    return {span.name: span for span in read_spans(path)}


def test_how_long_a_new_leader_was_sent_nothing_is_told_by_its_spans(tmp_path: Path) -> None:
    clock = Moved()
    telemetry = Telemetry.set_up("broker", "1", directory=tmp_path)
    first_commit = FirstCommit(telemetry, clock, "", 4)
    clock.now_us += 230_500
    first_commit.traffic_came()
    clock.now_us += 2_000
    first_commit.traffic_came()
    first_commit.happened("flights-0", 3, 7)
    telemetry.shut_down()
    spans = spans_in(tmp_path)
    assert spans[FOLLOWERS_CONNECT].attributes["waited_for_traffic_ms"] == 230.5
    assert spans[FIRST_COMMIT].attributes["waited_for_traffic_ms"] == 230.5


@pytest.mark.parametrize(("configs", "is_taken"), [({}, True), ({"min.insync.replicas": "2"}, False)])
def test_what_a_producer_sends_is_noted_whether_it_is_taken_or_lacks_replicas(
    tmp_path: Path, configs: dict[str, str], is_taken: bool
) -> None:
    telemetry = Telemetry.set_up("broker", "1", directory=tmp_path / "traces")

    async def scenario(rig: Rig) -> None:
        producing = ProduceHandler(
            ME, SystemClock(), rig.replicas, rig.metadata, rig.shell, FairLimit(1_000_000), ProducerOwners()
        )
        await rig.decide(decision(replicas=(1, 2), isr=(1,)), configs=configs)
        rig.replica().first_commit = FirstCommit(telemetry, SystemClock(), "", 1)
        asked = ProducePartition(TOPIC_ID, 0, -1, memoryview(good_batch(TOPIC_ID, 0)))
        (outcome,) = await producing.produce(
            ProduceRequest(Acks.ACKS_ALL, 100, (asked,)), Holder("ipv4:127.0.0.1:50001")
        )
        assert isinstance(outcome, PartitionAppended) is is_taken
        if (first_commit := rig.replica().first_commit) is not None:
            first_commit.give_up()
        assert "waited_for_traffic_ms" in spans_in(tmp_path / "traces")[FOLLOWERS_CONNECT].attributes

    run(tmp_path / "data", scenario)
    telemetry.shut_down()
