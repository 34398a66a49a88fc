"""A follower's batches that are whole are compared with its leader's; where they differ, it is told."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.contract import convert
from hightide_broker.contract.replica_calls import DigestQuestion, Follower
from hightide_broker.core.effects import AskEpochEnd
from hightide_broker.core.events import EpochEndReceived, LeaderAndIsrDecided, RecordsExpired
from hightide_broker.core.machine import step
from hightide_broker.core.replica import Replica, ReplicaSettings, Role
from hightide_broker.directories.scrub import ReplicaScrub, ScrubSettings
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Divergence
from hightide_broker.replication.comparison import LeaderComparison
from hightide_broker.replication.digests import DigestServer, digest_of
from hightide_broker.storage import DirectorySettings, LogSettings, OffsetOutOfRange
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.channels import open_channel
from log_rig import KEY, LogRig
from stored_batches import make_batch

SIZE = len(make_batch(1))
END = 14
ME, LEADER = 1, 2
EPOCH = 2
FOLLOWER = Follower("the-cluster", ME, 7)


def filled(path: Path, other_at: int | None = None) -> LogRig:
    """A log of fourteen batches in segments of four, none in memory; one of them may hold something else."""
    rig = LogRig(path, LogSettings(segment_bytes=4 * SIZE), DirectorySettings(open_files_max=1))
    for offset in range(END):
        rig.append(1, b"other" if offset == other_at else b"value")
    rig.restart()
    return rig


def hosted(rig: LogRig, broker_id: int, high_watermark: int = END) -> HostedReplica:
    """The replica of a broker; LEADER leads."""
    state = Replica.opened(
        ReplicaSettings(broker_id), log_end_offset=END, high_watermark=high_watermark, epochs=((1, 0),)
    )
    decided = LeaderAndIsrDecided.dummy(LEADER, EPOCH, (ME, LEADER), replicas=(ME, LEADER))
    state, _ = step(state, decided)
    if broker_id != LEADER:
        state, _ = step(state, EpochEndReceived(AskEpochEnd(LEADER, EPOCH, 1, END), 1, END))
        assert state.role is Role.FETCHING
    return HostedReplica(KEY, "flights", TopicSettings(), state, rig.log)


class Journal:
    """The controller, as it is told of differences."""

    def __init__(self) -> None:
        self.told: list[tuple[int, int] | None] = []

    def report_difference(self, key: PartitionKey, where: Divergence | None) -> None:
        assert key == KEY
        if where is not None:
            assert (where.leader, where.leader_epoch) == (LEADER, EPOCH)
        self.told.append(None if where is None else (where.offset, where.high_watermark))


@dataclass
class Pair:
    """A follower, and its leader behind a port."""

    replica: HostedReplica
    leader: HostedReplica
    comparison: LeaderComparison
    scrub: ReplicaScrub
    journal: Journal
    asked: list[DigestQuestion]
    held: HostedReplicas
    """What the follower's broker holds."""


def run(ours: LogRig, theirs: LogRig, scenario: Callable[[Pair], Awaitable[None]], end: int = END) -> None:
    async def main() -> None:
        replica, leader = hosted(ours, ME, end), hosted(theirs, LEADER)
        at_leader, at_us = HostedReplicas(), HostedReplicas()
        at_leader.add(leader)
        at_us.add(replica)
        asked: list[DigestQuestion] = []
        with ThreadPoolExecutor(1) as disk:
            digests = DigestServer("the-cluster", at_leader, disk)

            async def answer(request: bytes, context: grpc.aio.ServicerContext[bytes, bytes]) -> bytes:
                asked.append(convert.digest_question_in(replica_pb2.DigestBatchesRequest.FromString(request)))
                try:
                    digest = await digests.answer(asked[-1])
                except ServiceError as error:
                    await context.abort(grpc.StatusCode.FAILED_PRECONDITION, str(error))
                return replica_pb2.DigestBatchesResponse(digest=digest).SerializeToString()

            server = grpc.aio.server()
            handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
                "DigestBatches": grpc.unary_unary_rpc_method_handler(answer)
            }
            server.add_generic_rpc_handlers(
                (grpc.method_handlers_generic_handler("hightide.v1.ReplicaService", handlers),)
            )
            address = HostPort("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
            await server.start()
            journal = Journal()
            comparison = LeaderComparison(
                at_us, lambda: FOLLOWER, {LEADER: address}.get, journal, disk, open_channel
            )
            scrub = ReplicaScrub(at_us, disk, ScrubSettings(1 << 30, 3_600_000), comparison)
            try:
                await scenario(Pair(replica, leader, comparison, scrub, journal, asked, at_us))
            finally:
                await scrub.close()
                await server.stop(None)

    asyncio.run(main())
    ours.close(clean=False)
    theirs.close(clean=False)


def test_replicas_that_are_equal_are_compared_to_the_end_and_nothing_is_told(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        assert pair.journal.told == []
        assert pair.comparison.compared_bytes == END * SIZE
        ranges = [(each.base_offset, each.end_offset) for each in pair.asked]
        assert ranges == [(0, 4), (4, 8), (8, 12), (12, 14)]

    run(filled(tmp_path / "ours"), filled(tmp_path / "theirs"), scenario)


@pytest.mark.parametrize("other_at", [0, 5, 13])
def test_a_batch_that_is_whole_and_not_the_leaders_is_told_once_with_where_it_is(
    tmp_path: Path, other_at: int
) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        await pair.scrub.check_all()
        segment = other_at // 4 * 4
        assert pair.journal.told == [(segment, min(segment + 4, END))]
        assert pair.comparison.differing_count == 1
        pair.comparison.tell_again()
        assert len(pair.journal.told) == 2

    run(filled(tmp_path / "ours", other_at), filled(tmp_path / "theirs"), scenario)


def test_where_they_differ_no_more_that_is_told(tmp_path: Path) -> None:
    ours, theirs = filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs")

    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        name = "00000000000000000004.log"
        (ours.log_directory / name).write_bytes((theirs.log_directory / name).read_bytes())
        await pair.scrub.check_all()
        assert pair.journal.told == [(4, 8), None]
        assert pair.comparison.differing_count == 0

    run(ours, theirs, scenario)


def test_a_replica_that_leads_by_now_differs_from_no_leader(tmp_path: Path) -> None:
    # So an operator says that it is the one that is right; the other one compares itself with it now.
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        decided = LeaderAndIsrDecided.dummy(ME, EPOCH + 1, (ME, LEADER), replicas=(ME, LEADER))
        pair.replica.state, _ = step(pair.replica.state, decided)
        await pair.scrub.check_all()
        assert pair.journal.told == [(4, 8), None]
        assert pair.comparison.differing_count == 0

    run(filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs"), scenario)


@pytest.mark.parametrize("log_start_offset", [6, 8, END])
def test_records_that_were_deleted_differ_no_more(tmp_path: Path, log_start_offset: int) -> None:
    # By retention or an operator. There was a complaint for as long as the broker lived.
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        for each in (pair.replica, pair.leader):
            each.log.move_start(log_start_offset)
            each.state, _ = step(each.state, RecordsExpired(log_start_offset))
        await pair.scrub.check_all()
        assert pair.journal.told == [(4, 8), None]
        assert pair.comparison.differing_count == 0

    run(filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs"), scenario)


def test_records_of_which_only_others_were_deleted_differ_still(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        for each in (pair.replica, pair.leader):
            each.log.move_start(5)
            each.state, _ = step(each.state, RecordsExpired(5))
        await pair.scrub.check_all()
        assert pair.journal.told == [(4, 8)]
        assert pair.comparison.differing_count == 1

    run(filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs"), scenario)


def test_a_replica_that_is_here_no_more_differs_from_nobody(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        pair.held.remove(pair.replica)
        pair.comparison.tell_again()
        assert pair.journal.told == [(4, 8), None]
        assert pair.comparison.differing_count == 0

    run(filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs"), scenario)


def test_what_is_not_committed_may_differ(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        assert pair.journal.told == []
        assert max(each.end_offset for each in pair.asked) == 9

    run(filled(tmp_path / "ours", other_at=9), filled(tmp_path / "theirs"), scenario, end=9)


def test_segments_that_end_elsewhere_are_compared_all_the_same(tmp_path: Path) -> None:
    theirs = LogRig(
        tmp_path / "theirs", LogSettings(segment_bytes=3 * SIZE), DirectorySettings(open_files_max=1)
    )
    theirs.fill(END)
    theirs.restart()

    async def scenario(pair: Pair) -> None:
        await pair.scrub.check_all()
        assert pair.journal.told == []
        assert pair.comparison.compared_bytes == END * SIZE

    run(filled(tmp_path / "ours"), theirs, scenario)


def test_a_leader_that_is_another_one_meanwhile_proves_nothing(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        decided = LeaderAndIsrDecided.dummy(ME, EPOCH + 1, (ME, LEADER), replicas=(ME, LEADER))
        pair.leader.state, _ = step(pair.leader.state, decided)
        await pair.scrub.check_all()
        assert pair.asked
        assert (pair.journal.told, pair.comparison.compared_bytes) == ([], 0)

    run(filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs"), scenario)


def test_who_leads_or_is_held_compares_with_nobody(tmp_path: Path) -> None:
    async def scenario(pair: Pair) -> None:
        pair.replica.is_damaged = True
        await pair.scrub.check_all()
        pair.replica.is_damaged = False
        decided = LeaderAndIsrDecided.dummy(ME, EPOCH + 1, (ME, LEADER), replicas=(ME, LEADER))
        pair.replica.state, _ = step(pair.replica.state, decided)
        await pair.scrub.check_all()
        assert pair.asked == []

    run(filled(tmp_path / "ours", other_at=5), filled(tmp_path / "theirs"), scenario)


REFUSED = {
    "another cluster": (DigestQuestion(Follower("x", ME, 7), KEY, EPOCH, 0, 4), "INCONSISTENT_CLUSTER_ID"),
    "a partition that is not here": (
        DigestQuestion(FOLLOWER, (KEY[0], 99), EPOCH, 0, 4),
        "UNKNOWN_PARTITION",
    ),
    "another epoch": (DigestQuestion(FOLLOWER, KEY, EPOCH - 1, 0, 4), "FENCED_LEADER_EPOCH"),
    "what is not committed": (DigestQuestion(FOLLOWER, KEY, EPOCH, 0, END + 1), "OFFSET_OUT_OF_RANGE"),
    "an offset below all": (DigestQuestion(FOLLOWER, KEY, EPOCH, -1, 4), "OFFSET_OUT_OF_RANGE"),
    "nothing": (DigestQuestion(FOLLOWER, KEY, EPOCH, 4, 4), "OFFSET_OUT_OF_RANGE"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_a_question_that_a_leader_cannot_answer_is_refused(tmp_path: Path, name: str) -> None:
    question, reason = REFUSED[name]
    rig = filled(tmp_path)

    async def main() -> None:
        replicas = HostedReplicas()
        replicas.add(hosted(rig, LEADER))
        with ThreadPoolExecutor(1) as disk, pytest.raises(ServiceError) as raised:
            await DigestServer("the-cluster", replicas, disk).answer(question)
        assert raised.value.code == ErrorCode.Value(f"ERROR_CODE_{reason}")

    asyncio.run(main())
    rig.close()


def test_a_digest_covers_no_more_than_its_bound(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rig = filled(tmp_path)
    monkeypatch.setattr("hightide_broker.replication.digests.BATCHES_BYTES_MAX", 5 * SIZE)
    assert digest_of(rig.log, 0, 5)[1]
    with pytest.raises(OffsetOutOfRange):
        digest_of(rig.log, 0, 6)
    rig.close()


def test_a_digest_tells_whether_batches_begin_and_end_where_they_should(tmp_path: Path) -> None:
    rig = LogRig(tmp_path)
    for _ in range(3):
        rig.append(3)
    assert digest_of(rig.log, 0, 9)[1]
    assert not digest_of(rig.log, 1, 9)[1]
    assert digest_of(rig.log, 0, 3)[0] != digest_of(rig.log, 0, 6)[0]
    rig.close()
