"""A log is a list of batches: any sequence of calls, crashes and power cuts, against a list."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

from damages import DAMAGES
from hightide_broker.storage import DamagedLog, DirectorySettings, LogSettings
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from log_rig import KEY, LogRig, apply_retention, offsets, read_all
from stored_batches import as_sent_by_leader, make_batch

SIZE = len(make_batch(1, b"x" * 20))


class LogAgainstAList(RuleBasedStateMachine):
    """`batches` is what the log must hold: base offset, record count, epoch and value of each."""

    def __init__(self) -> None:
        super().__init__()
        self.path = Path(tempfile.mkdtemp())
        self.rig = LogRig(
            self.path,
            LogSettings(segment_bytes=5 * SIZE, index_interval_bytes=2 * SIZE, retention_ms=-1),
            DirectorySettings(open_files_max=2, tail_bytes_max=6 * SIZE, tail_bytes_per_log_max=6 * SIZE),
        )
        self.batches: list[tuple[int, int, int, bytes]] = []
        # Every batch that was ever appended, the newest last.
        self.written: list[tuple[int, int, int, bytes]] = []
        self.start = 0
        self.epoch = 1
        self.durable_end = 0

    @property
    def end(self) -> int:
        return self.batches[-1][0] + self.batches[-1][1] if self.batches else self.start

    def teardown(self) -> None:
        self.rig.close()
        shutil.rmtree(self.path)

    @rule(counts=st.lists(st.integers(1, 4), min_size=2, max_size=8), size=st.sampled_from([0, 20, 100]))
    def append_as_leader(self, counts: list[int], size: int) -> None:
        for count in counts:
            value = bytes([len(self.batches) % 250]) * size
            base_offset = self.end
            self.remember((base_offset, count, self.epoch, value))
            assert self.rig.append(count, value, self.epoch) == self.end

    @rule(counts=st.lists(st.integers(1, 4), min_size=2, max_size=8), size=st.sampled_from([0, 20, 100]))
    def append_as_follower(self, counts: list[int], size: int) -> None:
        base_offset = self.end
        sent = b""
        for count in counts:
            value = bytes([len(self.batches) % 250]) * size
            sent += as_sent_by_leader(make_batch(count, value), self.end, self.epoch)
            self.remember((self.end, count, self.epoch, value))
        info = self.rig.log.append_as_follower(sent)
        assert (info.base_offset, info.end_offset) == (base_offset, self.end)

    @rule()
    def new_epoch(self) -> None:
        self.epoch += 1
        self.rig.log.assign_epoch(self.epoch, self.end)

    @rule()
    def flush(self) -> None:
        self.durable_end = self.rig.log.flush()
        assert self.durable_end == self.end

    @rule()
    def roll_and_go_on(self) -> None:
        self.rig.log.roll()
        self.append_as_leader([1, 1], 20)

    @rule(high_watermark=st.integers(0, 100))
    def flush_and_checkpoint(self, high_watermark: int) -> None:
        self.flush()
        self.rig.directory.checkpoint_high_watermarks({KEY: high_watermark})

    @rule(data=st.data())
    @precondition(lambda self: self.batches)
    def truncate(self, data: st.DataObject) -> None:
        offset = data.draw(st.sampled_from([batch[0] for batch in self.batches]))
        assert self.rig.log.truncate_to(offset) == offset
        self.batches = [batch for batch in self.batches if batch[0] < offset]
        self.durable_end = min(self.durable_end, offset)
        self.epoch += 1

    @rule(data=st.data(), counts=st.lists(st.integers(1, 4), min_size=1, max_size=4))
    @precondition(lambda self: self.batches)
    def truncate_and_go_on(self, data: st.DataObject, counts: list[int]) -> None:
        self.truncate(data)
        self.append_as_follower(counts, 20)

    @rule(data=st.data(), keep_bytes=st.integers(0, 10 * SIZE))
    def delete_old(self, data: st.DataObject, keep_bytes: int) -> None:
        settings = self.rig.settings
        self.rig.log.update_settings(
            LogSettings(segment_bytes=5 * SIZE, retention_ms=-1, retention_bytes=keep_bytes)
        )
        high_watermark = data.draw(st.integers(self.start, self.end))
        self.start = apply_retention(self.rig.log, 0, high_watermark)
        self.rig.log.update_settings(settings)
        assert self.start <= high_watermark or self.start == self.rig.log.log_start_offset
        self.batches = [batch for batch in self.batches if batch[0] >= self.start]

    @rule()
    def restart_cleanly(self) -> None:
        self.rig.restart()
        self.durable_end = self.end

    @rule(torn=st.binary(max_size=60))
    def crash(self, torn: bytes) -> None:
        """The process dies in the middle of a write."""
        self.rig.close(clean=False)
        segments = self.rig.segments()
        if segments and self.batches and torn:
            whole = as_sent_by_leader(make_batch(3, torn), self.end, self.epoch)
            with segments[-1].open("ab") as file:
                file.write(whole[: len(whole) * len(torn) // 61])
        self.rig.open()
        self.durable_end = self.end

    @rule(data=st.data(), damage=st.sampled_from(sorted(set(DAMAGES) - {"two batches swapped"})))
    def damage_a_segment_and_mend_it(self, data: st.DataObject, damage: str) -> None:
        """Its disk changes or loses something of a segment; a peer has all."""
        segments = [segment for segment in self.rig.segments() if segment.stat().st_size]
        if not segments:
            return
        DAMAGES[damage](data.draw(st.sampled_from(segments)))
        place, log = None, self.rig.log
        while True:
            try:
                place, _ = log.at_rest.check(place, 3 * SIZE)
            except DamagedLog as found:
                self.mend(found.segment)
                continue
            if place is None:
                return

    def mend(self, segment: int) -> None:
        peer = {batch[0]: batch for batch in self.batches}
        mend = self.rig.log.at_rest.mend(segment)
        assert mend is not None
        while (offset := mend.go_on()) is not None:
            _, count, epoch, value = peer[offset]
            assert mend.take(as_sent_by_leader(make_batch(count, value), offset, epoch)) == 1
        assert mend.finish()
        mend.close()

    @rule(seed=st.integers(0, 2**32))
    def cut_the_power(self, seed: int) -> None:
        """Of what was not synced, some is lost, and some that was removed is back; nothing durable is
        lost."""
        self.rig.cut_power(seed)
        assert self.rig.log.log_start_offset <= self.start
        found = [
            (header.base_offset, header.record_count, header.leader_epoch)
            for header in read_all(self.rig.log)
        ]
        # What was durable is all there; whatever else is there was written once.
        durable = [batch for batch in self.batches if batch[0] < self.durable_end]
        places = {batch[:3]: at for at, batch in enumerate(self.written)}
        assert all(batch in places for batch in found)
        survivors = [self.written[places[batch]] for batch in found]
        assert [batch for batch in survivors if self.start <= batch[0] < self.durable_end] == durable
        self.start = self.rig.log.log_start_offset
        self.batches = survivors
        self.durable_end = self.end
        self.epoch = max([self.epoch, *(batch[2] for batch in survivors)]) + 1

    def remember(self, batch: tuple[int, int, int, bytes]) -> None:
        self.batches.append(batch)
        self.written.append(batch)

    @invariant()
    def holds_what_the_list_holds(self) -> None:
        log = self.rig.log
        assert (log.log_start_offset, log.log_end_offset) == (self.start, self.end)
        assert log.durable_end_offset <= log.log_end_offset
        expected = b"".join(
            as_sent_by_leader(make_batch(count, value), base, epoch)
            for base, count, epoch, value in self.batches
        )
        stored = b"".join(
            piece for header in read_all(log) for piece in log.read(header.base_offset, 0, self.end)
        )
        assert stored == expected
        log._tail.clear()
        assert offsets(log) == [batch[0] for batch in self.batches]

    @invariant()
    def knows_where_epochs_start(self) -> None:
        starts: dict[int, int] = {}
        for base, _, epoch, _ in self.batches:
            starts.setdefault(epoch, base)
        for epoch, base in starts.items():
            assert self.rig.log.epochs.start_of(epoch) == base


LogAgainstAList.TestCase.settings = settings(
    max_examples=25,
    stateful_step_count=20,
    # Without the phase `explain`, whose tracing takes most of the time.
    phases=(Phase.explicit, Phase.reuse, Phase.generate, Phase.shrink),
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
)
test_a_log_is_a_list_of_batches = LogAgainstAList.TestCase
