"""A damaged replica is told to the controller, fetches nothing, and is mended from who has what it lacks."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
from damages import DAMAGES
from hightide.batch.wire import FetchPartitionResult, FetchResponse, serialise_fetch_response
from hightide.v1.broker_service_pb2 import FetchRequest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.cluster.topic_settings import TopicSettings
from hightide_broker.core.events import LeaderAndIsrDecided, StopRequested
from hightide_broker.core.machine import step
from hightide_broker.core.replica import Replica, ReplicaSettings
from hightide_broker.directories.healing import ReplicaHealing
from hightide_broker.directories.scrub import LOG_BYTES_MIN, ReplicaScrub, ScrubSettings, missing_bytes
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import DamagedLog, DirectorySettings, LogSettings, StorageError
from hightide_local.histories.waiting import aio_wait_until
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from log_rig import KEY, LogRig
from stored_batches import make_batch

SIZE = len(make_batch(1))
END = 14
ME, PEER, NOBODY = 1, 2, 3
WAIT_S = 60.0


def filled(path: Path) -> LogRig:
    """A log of fourteen batches in segments of four, none of them in memory."""
    rig = LogRig(path, LogSettings(segment_bytes=4 * SIZE), DirectorySettings(open_files_max=1))
    rig.fill(END)
    rig.restart()
    return rig


class Peer:
    """Another broker's own replica, as Fetch with from_follower reads it."""

    def __init__(self, rig: LogRig) -> None:
        self._rig = rig
        self.asked: list[int] = []
        self.has_it = True
        self.cut: Callable[[], object] | None = None
        """What happens once, while it is asked."""
        self.address = HostPort("127.0.0.1", 0)

    async def fetch(self, request: bytes, context: object) -> bytes:
        call = FetchRequest.FromString(request)
        (asked,) = call.partitions
        assert call.from_follower
        self.asked.append(asked.fetch_offset)
        if self.cut is not None:
            cut, self.cut = self.cut, None
            cut()
        code, batches = ErrorCode.ERROR_CODE_STORAGE_FAILED, b""
        if self.has_it:
            try:
                batches = b"".join(map(bytes, self._rig.log.read_file(asked.fetch_offset, 1, END)))
                code = ErrorCode.ERROR_CODE_UNSPECIFIED
            except StorageError:
                pass
        result = FetchPartitionResult(*KEY, code, "it is not here", END, 0, -1, -1, (batches,))
        return serialise_fetch_response(FetchResponse((result,)))

    async def serve(self) -> grpc.aio.Server:
        server = grpc.aio.server()
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            "Fetch": grpc.unary_unary_rpc_method_handler(self.fetch)
        }
        server.add_generic_rpc_handlers(
            (grpc.method_handlers_generic_handler("hightide.v1.BrokerService", handlers),)
        )
        self.address = HostPort("127.0.0.1", server.add_insecure_port("127.0.0.1:0"))
        await server.start()
        return server


class Controller:
    """Notes what it is told of a replica."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal

    def report_damage(self, key: PartitionKey, offset: int) -> None:
        assert key == KEY
        self._journal.append(f"damaged at {offset}")

    def report_whole(self, key: PartitionKey) -> None:
        assert key == KEY
        self._journal.append("whole")

    async def told(self, patience_s: float) -> None:
        self._journal.append("told")


class Copying:
    """Notes when nothing is fetched any more, and when again."""

    def __init__(self, journal: list[str]) -> None:
        self._journal = journal

    def hold(self, replica: HostedReplica) -> None:
        assert replica.is_damaged
        self._journal.append("hold")

    def resume(self, replica: HostedReplica) -> None:
        assert not replica.is_damaged
        self._journal.append("resume")


@dataclass
class Ward:
    """A broker with one replica, which follows a peer that is whole."""

    rig: LogRig
    peer: Peer
    replica: HostedReplica
    hosted: HostedReplicas
    healing: ReplicaHealing
    scrub: ReplicaScrub
    journal: list[str]

    def segment(self, base: int) -> Path:
        return self.rig.log_directory / f"{base:020d}.log"

    def read(self, offset: int) -> None:
        with pytest.raises(DamagedLog):
            self.rig.log.read_file(offset, 1, END)

    async def until(self, what: str, is_so: Callable[[], object]) -> None:
        async def asked() -> object:
            return is_so()

        await aio_wait_until(what, asked, WAIT_S)

    async def until_whole(self) -> None:
        await self.until("it fetches on", lambda: self.journal and self.journal[-1] == "resume")


def run(tmp_path: Path, scenario: Callable[[Ward], Awaitable[None]], *, lacks_front: bool = False) -> None:
    ours, theirs = filled(tmp_path / "ours"), filled(tmp_path / "theirs")
    if lacks_front:
        (ours.log_directory / f"{0:020d}.log").unlink()
        ours.restart()
    peer, journal = Peer(theirs), list[str]()

    async def main() -> None:
        server = await peer.serve()
        state = Replica.opened(ReplicaSettings(ME), log_end_offset=END, epochs=((1, 0),))
        decided = LeaderAndIsrDecided.dummy(
            leader=PEER, leader_epoch=1, isr=(PEER,), replicas=(ME, PEER, NOBODY)
        )
        state, _ = step(state, decided)
        replica = HostedReplica(KEY, "flights", TopicSettings(), state, ours.log)
        hosted = HostedReplicas()
        hosted.add(replica)
        with ThreadPoolExecutor(1) as disk:
            healing = ReplicaHealing(
                ME, hosted, Copying(journal), Controller(journal),
                lambda broker_id: peer.address if broker_id == PEER else None, disk,
                open_channel,
            )  # fmt: skip
            loop = asyncio.get_running_loop()

            def met(damage: DamagedLog) -> None:
                loop.call_soon_threadsafe(healing.met, damage)

            ours.directory.tell_of_damage(met)
            scrub = ReplicaScrub(hosted, disk, ScrubSettings(1 << 30, 3_600_000))
            try:
                await scenario(Ward(ours, peer, replica, hosted, healing, scrub, journal))
            finally:
                await scrub.close()
                await healing.close()
                await server.stop(None)

    asyncio.run(main())
    ours.close(clean=False)
    theirs.close(clean=False)


@pytest.mark.parametrize("damage", ["a flipped bit in a body", "a flipped length", "a cut file", "zeros"])
def test_a_reader_that_meets_damage_has_it_told_and_mended(tmp_path: Path, damage: str) -> None:
    async def scenario(ward: Ward) -> None:
        before = ward.segment(4).read_bytes()
        DAMAGES[damage](ward.segment(4))
        ward.read(5)
        ward.read(5)
        await ward.until_whole()
        assert ward.segment(4).read_bytes() == before
        assert ward.journal == ["hold", "damaged at 5", "told", "whole", "told", "resume"]
        assert (ward.healing.found, ward.healing.healed, ward.healing.damaged_count) == (1, 1, 0)

    run(tmp_path, scenario)


def test_the_scrub_finds_what_nobody_reads_and_all_of_it_in_one_pass(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        before = [ward.segment(base).read_bytes() for base in (0, 8)]
        DAMAGES["a flipped bit in a body"](ward.segment(0))
        DAMAGES["a deleted file"](ward.segment(8))
        await ward.scrub.check_all()
        await ward.until_whole()
        assert [ward.segment(base).read_bytes() for base in (0, 8)] == before
        assert ward.journal.count("whole") == 1
        checked = ward.scrub.checked_bytes
        await ward.scrub.check_all()
        assert ward.scrub.checked_bytes - checked == END * SIZE
        assert ward.healing.found == 1

    run(tmp_path, scenario)


def test_a_scrub_that_is_off_reads_nothing(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        with ThreadPoolExecutor(1) as disk:
            off = ReplicaScrub(ward.hosted, disk, ScrubSettings(0, 1))
            await ward.scrub.check_all()
            assert off.checked_bytes == 0
            await off.close()

    run(tmp_path, scenario)


def test_the_scrub_reads_no_faster_than_it_may(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        loop = asyncio.get_running_loop()
        with ThreadPoolExecutor(1) as disk:
            slow = ReplicaScrub(ward.hosted, disk, ScrubSettings(8 * LOG_BYTES_MIN, 3_600_000))
            began = loop.time()
            await slow.check_all()
            assert loop.time() - began >= 1 / 8
            assert slow.checked_bytes == END * SIZE
            await slow.close()

    run(tmp_path, scenario)


def test_damage_whose_place_is_not_known_is_looked_for(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        before = ward.segment(4).read_bytes()
        DAMAGES["a flipped magic"](ward.segment(4))
        ward.healing.met(DamagedLog("flights", *KEY, "somewhere"))
        await ward.until_whole()
        assert ward.segment(4).read_bytes() == before

    run(tmp_path, scenario)


def test_what_nobody_has_stays_damaged_is_told_again_and_mended_when_somebody_has_it(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        before = ward.segment(4).read_bytes()
        ward.peer.has_it = False
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.read(5)
        await ward.until("it is told again", lambda: ward.journal.count("damaged at 5") == 3)
        assert ward.replica.is_damaged
        assert ward.healing.damaged_count == 1
        assert "whole" not in ward.journal
        ward.peer.has_it = True
        await ward.until_whole()
        assert ward.segment(4).read_bytes() == before
        assert ward.healing.healed == 1

    run(tmp_path, scenario)


def test_a_replica_is_whole_when_an_operator_has_let_go_of_what_nobody_has(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        ward.peer.has_it = False
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.read(5)
        await ward.until("it is told again", lambda: ward.journal.count("damaged at 5") > 1)
        ward.rig.log.move_start(6)
        await ward.until_whole()
        assert ward.healing.damaged_count == 0

    run(tmp_path, scenario)


def test_a_log_whose_oldest_records_are_gone_is_damaged_until_they_are_deleted(tmp_path: Path) -> None:
    """No segment is there to be repaired. If that made it whole, health would come and go with each read."""

    async def scenario(ward: Ward) -> None:
        assert ward.replica.log.at_rest.report_gaps()
        await ward.until("it is told again", lambda: ward.journal.count("damaged at 0") > 1)
        ward.read(1)
        assert "whole" not in ward.journal
        ward.rig.log.move_start(4)
        await ward.until_whole()
        assert ward.rig.log.at_rest.missing_front() is None

    run(tmp_path, scenario, lacks_front=True)


def test_a_new_controller_is_told_of_what_is_damaged(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        ward.healing.tell_again()
        assert ward.journal == []
        ward.peer.has_it = False
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.read(5)
        await ward.until("it is asked for", lambda: ward.peer.asked)
        told = ward.journal.count("damaged at 5")
        ward.healing.tell_again()
        assert ward.journal.count("damaged at 5") == told + 1

    run(tmp_path, scenario)


def test_a_segment_that_was_cut_while_it_was_mended_is_mended_again_before_the_replica_is_whole(
    tmp_path: Path,
) -> None:
    async def scenario(ward: Ward) -> None:
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.peer.cut = lambda: ward.rig.log.truncate_to(12)
        ward.read(5)
        await ward.until_whole()
        assert len(ward.peer.asked) > 1, "what was begun before the cut was given up"
        place, _ = ward.rig.log.at_rest.check(None, 1 << 20)
        while place is not None:
            place, _ = ward.rig.log.at_rest.check(place, 1 << 20)

    run(tmp_path, scenario)


def test_what_is_found_when_the_rest_is_mended_is_mended_before_the_replica_is_whole(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        before = ward.segment(8).read_bytes()
        found: list[DamagedLog] = []

        def connect(address: HostPort, *, ping_ms: int | None = None) -> grpc.aio.Channel:
            channel = open_channel(address, ping_ms=ping_ms)
            close = channel.close

            async def find_more_and_close(grace: float | None = None) -> None:
                if not found:
                    found.append(DamagedLog("flights", *KEY, "a reader was there", 8, 8))
                    DAMAGES["a flipped bit in a body"](ward.segment(8))
                    ward.healing.met(found[0])
                await close(grace)

            channel.close = find_more_and_close  # type: ignore[method-assign]
            return channel

        ward.healing._open_channel = connect
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.read(5)
        await ward.until_whole()
        assert found
        assert ward.segment(8).read_bytes() == before

    run(tmp_path, scenario)


def test_a_bug_that_ends_an_attempt_does_not_let_a_damaged_replica_fetch(tmp_path: Path) -> None:
    """Its leader would let it into the ISR with the damage."""

    async def scenario(ward: Ward) -> None:
        before = ward.segment(4).read_bytes()
        bugs = [RuntimeError("a bug"), RuntimeError("another")]

        def connect(address: HostPort, *, ping_ms: int | None = None) -> grpc.aio.Channel:
            if bugs:
                raise bugs.pop()
            return open_channel(address, ping_ms=ping_ms)

        ward.healing._open_channel = connect
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.read(5)
        await ward.until_whole()
        assert bugs == []
        assert ward.segment(4).read_bytes() == before
        assert ward.healing.found == 1

    run(tmp_path, scenario)


def test_a_replica_that_is_stopped_meanwhile_is_mended_no_more(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        ward.peer.has_it = False
        DAMAGES["a flipped bit in a body"](ward.segment(4))
        ward.read(5)
        await ward.until("it is asked for", lambda: ward.peer.asked)
        ward.replica.state, _ = step(ward.replica.state, StopRequested(9, 1, delete=True))
        ward.hosted.remove(ward.replica)
        await ward.until("it is given up", lambda: ward.healing.damaged_count == 0)
        await ward.until("the controller hears it", lambda: "whole" in ward.journal)
        assert ward.healing.healed == 0
        assert "resume" not in ward.journal

    run(tmp_path, scenario)


def test_a_damaged_replica_that_is_opened_again_is_damaged_until_it_is_mended_itself(tmp_path: Path) -> None:
    """A full disk has no room to put a log aside. It is opened again, damaged as it was. Its predecessor was
    still a patient, so nobody mended the new one, and it fetched nothing for good."""

    async def scenario(ward: Ward) -> None:
        first = ward.replica
        assert first.log.at_rest.report_gaps()
        await ward.until("it is told again", lambda: ward.journal.count("damaged at 0") > 1)
        ward.hosted.remove(first)
        again = HostedReplica(KEY, "flights", TopicSettings(), first.state, first.log)
        first.state, _ = step(first.state, StopRequested(9, 1, delete=True))
        ward.hosted.add(again)
        again.is_damaged = again.log.at_rest.report_gaps()
        await ward.until("it is a patient", lambda: ward.journal.count("hold") == 2)
        await ward.until("the first is none", lambda: not first.is_damaged)
        assert again.is_damaged
        assert "whole" not in ward.journal, "the end of the first says nothing about the second"
        ward.rig.log.move_start(4)
        await ward.until_whole()
        assert (ward.healing.healed, ward.healing.damaged_count) == (1, 0)

    run(tmp_path, scenario, lacks_front=True)


def test_damage_to_what_this_broker_does_not_run_concerns_nobody(tmp_path: Path) -> None:
    async def scenario(ward: Ward) -> None:
        ward.healing.met(DamagedLog("flights", KEY[0], KEY[1] + 1, "somewhere"))
        assert ward.journal == []
        assert ward.healing.found == 0

    run(tmp_path, scenario)


def test_a_pass_over_many_small_logs_is_as_slow_as_one_over_large_ones() -> None:
    """A broker with 10,000 logs of one record each was busy for a tenth of its time while it was checked."""
    assert missing_bytes(100) == LOG_BYTES_MIN - 100
    assert missing_bytes(LOG_BYTES_MIN) == missing_bytes(10 * LOG_BYTES_MIN) == 0
