"""Logs that are opened after the start, in a cluster without a controller: one without its oldest records is
fetched anew, before it is in sync; and none stays closed because ZooKeeper was away."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from control_rig import ME, TOPIC_ID, Rig, run
from hightide_broker.coordination.decider import Host
from hightide_broker.coordination.led_cluster import LedCluster
from hightide_broker.coordination.led_replicas import LedReplicas
from hightide_leaders.core.values import PartitionNodes, TopicPartition
from hightide_runtime.znodes.leaders_znodes import IsrZnode
from hightide_runtime.znodes.led_nodes import IsrNode, TopicNode
from hightide_runtime.zookeeper.operations import Operation, SetData
from hightide_runtime.zookeeper.session import BadVersion, ConnectionLost
from unit.broker.hosting.test_gaps_in_logs import lose_the_front

NAME = TopicPartition("flights", 0)
ISR = IsrZnode.path(*NAME)


class Stored:
    """ZooKeeper with the ISR of one partition. `before_write`: what somebody else writes first; `away_for`:
    so many requests find it away, after so many that did not."""

    def __init__(
        self,
        isr: tuple[int, ...],
        before_write: tuple[int, ...] | None = None,
        away_for: tuple[int, int] = (0, 0),
    ) -> None:
        self.isr = IsrNode(4, isr, 9)
        self._before_write = before_write
        self._lost = [*([False] * away_for[1]), *([True] * away_for[0])]

    def _answer(self) -> None:
        if self._lost and self._lost.pop(0):
            raise ConnectionLost("no connection", outcome_unknown=False)

    @property
    def nodes(self) -> PartitionNodes:
        return PartitionNodes(TOPIC_ID.hex(), (ME, 2, 3), None, self.isr)

    async def multi(self, operations: Sequence[Operation]) -> None:
        self._answer()
        if self._before_write is not None:
            self.isr = IsrNode(4, self._before_write, self.isr.version + 1)
            self._before_write = None
        for each in operations:
            if isinstance(each, SetData) and each.path == ISR:
                if each.version != self.isr.version:
                    raise BadVersion(ISR)
                read = IsrZnode.decode(each.data)
                self.isr = IsrNode(read.epoch, read.isr, self.isr.version + 1, read.eligible, read.recovered)

    async def read_partitions(self, names: object, topics: object = ()) -> dict[str, Any]:
        self._answer()
        return {NAME.topic: (TopicNode(TOPIC_ID, None, 1), {NAME.partition: self.nodes})}


async def open_late(rig: Rig, stored: Stored) -> None:
    """The decider finds that the partition is this broker's."""
    settings = SimpleNamespace(broker_id=ME, replica_lag_time_max_ms=10_000, min_insync_replicas=1)
    host = SimpleNamespace(
        settings=settings, replicas=rig.replicas, shell=rig.shell, directories=rig.directories,
        metadata=rig.metadata, ports=SimpleNamespace(session=stored),
    )  # fmt: skip
    replicas = LedReplicas(cast(Host, host), cast(LedCluster, stored), lambda event: None)
    await replicas.open_replica(NAME, stored.nodes)


def ends(rig: Rig) -> tuple[int, int]:
    state = rig.replica().state
    return state.log_start_offset, state.log_end_offset


def test_it_is_fetched_anew_if_others_have_all_records(tmp_path: Path) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        stored = Stored(isr=(2, 3))
        await open_late(rig, stored)
        assert ends(rig) == (0, 0)
        assert len(rig.quarantined()) == 1
        assert stored.isr.version == 9, "it was in no ISR"

    run(tmp_path, after)


def test_it_leaves_the_isr_first_if_others_count_on_it(tmp_path: Path) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        stored = Stored(isr=(ME, 2))
        await open_late(rig, stored)
        assert (stored.isr.isr, stored.isr.doubted) == ((2,), frozenset({ME}))
        assert ends(rig) == (0, 0)
        assert len(rig.quarantined()) == 1

    run(tmp_path, after)


def test_it_keeps_what_it_has_if_the_others_leave_the_isr_meanwhile(tmp_path: Path) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        stored = Stored(isr=(ME, 2), before_write=(ME,))
        await open_late(rig, stored)
        assert stored.isr.isr == (ME,)
        assert rig.replica().state.log_end_offset == 3
        assert rig.quarantined() == []

    run(tmp_path, after)


def test_it_keeps_what_it_has_if_no_other_has_it(tmp_path: Path) -> None:
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        await open_late(rig, Stored(isr=(ME,)))
        assert rig.replica().state.log_end_offset == 3
        assert rig.quarantined() == []

    run(tmp_path, after)


@pytest.mark.parametrize("after_requests", [0, 1, 2])
def test_it_is_opened_when_zookeeper_is_back(tmp_path: Path, after_requests: int) -> None:
    """Nobody tells the broker to open it once more."""
    lose_the_front(tmp_path)

    async def after(rig: Rig) -> None:
        stored = Stored(isr=(ME, 2), away_for=(2, after_requests))
        await open_late(rig, stored)
        assert stored.isr.isr == (2,)
        assert ends(rig) == (0, 0)

    run(tmp_path, after)
