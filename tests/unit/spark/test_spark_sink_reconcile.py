"""Each row once: attempts of one task, interleaved arbitrarily and dying anywhere, on a log with the broker's
own rules of sequences."""

import random
import zlib
from collections import Counter
from collections.abc import Generator, Iterable, Iterator
from itertools import pairwise

import numpy as np
import pyarrow as pa
import pytest
from hightide.batch.header import BatchHeader
from hightide.v1 import errors_pb2
from hightide_broker.storage.log.producer_states import DuplicateBatch, NewBatch, ProducerStates
from hightide_spark.core.reconcile import (
    LOOK_AGAIN,
    ROUNDS_WITHOUT_NEWS_MAX,
    ConflictPersistsError,
    ExactlyOnceError,
    GoOn,
    NewerWriterError,
    OtherRowsWrittenError,
    PartitionAttempt,
    Read,
    RowMultiset,
    WrittenRowsGoneError,
    digests_of,
    refuse_rows_elsewhere,
    taken_over,
)
from hypothesis import given
from hypothesis import strategies as st

PRODUCER_ID = 1 << 62
Step = Generator[None, None, None]


def table(values: list[bytes]) -> pa.RecordBatch:
    return pa.record_batch([pa.array(values, pa.binary())], ["value"])


def header_of(values: list[bytes], *, epoch: int, sequence: int, stamp: int, offset: int = 0) -> BatchHeader:
    crc = zlib.crc32(repr((values, sequence, epoch, stamp)).encode())
    return BatchHeader(offset, 100, 0, crc, b"t" * 16, 0, 0, epoch, PRODUCER_ID, sequence, len(values), 0, 0)


class Log:
    """One partition: what its leader appended, how much of that is committed, and what a leader's death takes
    away. Others write there, too."""

    def __init__(self) -> None:
        self.batches: list[tuple[BatchHeader, list[bytes]]] = []
        self.committed_end = 0
        self.reign = 0
        self.states = ProducerStates()

    @property
    def end(self) -> int:
        return self.batches[-1][0].next_offset if self.batches else 0

    def append(self, header: BatchHeader, values: list[bytes]) -> tuple[int, int] | int:
        """The range of offsets, or the code of a refusal."""
        match self.states.check(header):
            case NewBatch():
                stamped = header.stamped(self.end, self.reign)
                self.states.update(stamped)
                self.batches.append((stamped, values))
                return stamped.base_offset, stamped.next_offset
            case DuplicateBatch(base_offset, end_offset):
                return base_offset, end_offset
            case refusal:
                return refusal.code

    def commit(self) -> None:
        self.committed_end = self.end

    def fail_over(self) -> None:
        """The leader dies before anybody had what is not committed."""
        self.batches = [kept for kept in self.batches if kept[0].next_offset <= self.committed_end]
        self.reign += 1
        self.states.clear()
        for header, _ in self.batches:
            self.states.update(header)

    def rows(self) -> list[bytes]:
        return [row for _, values in self.batches for row in values]


class Attempt:
    """One attempt of a task, a step at a time, as `sink.partition_writer` does it."""

    def __init__(self, log: Log, rows: list[list[bytes]], *, epoch: int, stamp: int, window: int) -> None:
        self.log = log
        self.epoch = epoch
        self.stamp = stamp
        self.sequence = 0
        self.core = PartitionAttempt("test", "t-0", PRODUCER_ID, epoch, with_timestamps=False)
        self.is_done = False
        self.error: ExactlyOnceError | None = None
        self.steps = self._run(rows, window)

    def step(self) -> None:
        if self.is_done or self.error is not None:
            return
        try:
            next(self.steps)
        except StopIteration:
            self.is_done = True
        except ExactlyOnceError as error:
            self.error = error

    def _run(self, batches: list[list[bytes]], window: int) -> Step:
        for at in range(0, len(batches), window):
            yield from self._send([self.core.unwritten(table(batch)) for batch in batches[at : at + window]])
            yield from self._settle()
        self.core.finish()

    def _settle(self) -> Step:
        while self.core.is_refused:
            yield
            known = next(iter(self.log.states.describe([PRODUCER_ID])), None)
            match self.core.look(known):
                case Read(start, end):
                    yield from self._read(start, end)
                case GoOn(sequence, tables):
                    self.sequence = sequence
                    yield from self._send(tables)

    def _send(self, tables: Iterable[pa.RecordBatch]) -> Step:
        for rows in tables:
            if self.core.is_refused:
                self.core.refused(rows)
            elif rows.num_rows:
                yield from self._send_one(rows)

    def _send_one(self, rows: pa.RecordBatch) -> Step:
        values = rows.column(0).to_pylist()
        header = header_of(values, epoch=self.epoch, sequence=self.sequence, stamp=self.stamp)
        while True:
            yield
            reign = self.log.reign
            outcome = self.log.append(header, values)
            if outcome == errors_pb2.ERROR_CODE_FENCED_PRODUCER_EPOCH:
                raise taken_over("test", "t-0")
            if isinstance(outcome, int):
                assert outcome != errors_pb2.ERROR_CODE_UNKNOWN_PRODUCER_ID
                self.core.refused(rows)
                return
            yield
            if self.log.reign == reign:
                self.log.commit()
                self.core.acknowledged(outcome[0], len(values))
                self.sequence += len(values)
                return

    def _read(self, start: int, end: int) -> Step:
        while start < end:
            yield
            if self.log.end < end:
                return  # what was to be read went with its leader
            if self.log.committed_end < end:
                self.log.commit()
            header, values = next(kept for kept in self.log.batches if kept[0].next_offset > start)
            part = values[start - header.base_offset : end - header.base_offset]
            self.core.saw(header.producer_id, header.producer_epoch, start, table(part))
            start += len(part)


def cut_up(rows: list[bytes], cuts: list[int]) -> list[list[bytes]]:
    edges = [0, *sorted({cut % (len(rows) + 1) for cut in cuts}), len(rows)]
    return [rows[start:end] for start, end in pairwise(edges) if start < end]


def alone(attempt: Attempt) -> None:
    for _ in range(10_000):
        if attempt.is_done or attempt.error is not None:
            return
        attempt.step()
    raise AssertionError("it goes on for ever")


class Storm:
    """Attempts that begin, go on a step, and stay where they are, which is how they die, as a seed says."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.log = Log()
        self.attempts: list[Attempt] = []

    def begin(self, rows: list[bytes], epoch: int) -> Attempt:
        mixed = self.random.sample(rows, len(rows)) if self.random.random() < 0.5 else rows
        batches = cut_up(mixed, [self.random.randrange(50) for _ in range(self.random.randrange(6))])
        # Equal batches of attempts with equal stamps have equal CRCs.
        stamp, window = self.random.randrange(2), self.random.randrange(1, 4)
        self.attempts.append(Attempt(self.log, batches, epoch=epoch, stamp=stamp, window=window))
        return self.attempts[-1]

    def blow(self, rows: list[bytes], epoch: int) -> None:
        for _ in range(self.random.randrange(80)):
            choice = self.random.randrange(20)
            if choice == 0:
                self.log.fail_over()
            elif choice == 1 or not self.attempts:
                self.begin(rows, epoch)
            else:
                self.random.choice(self.attempts).step()
        last = self.begin(rows, epoch)
        alone(last)
        assert last.error is None


def test_each_row_is_written_once_however_attempts_interleave_and_die() -> None:
    for seed in range(400):
        storm = Storm(seed)
        first = storm.random.choices([b"a", b"b", b"c", b"d"], k=storm.random.randrange(1, 12))
        storm.blow(first, epoch=0)
        assert Counter(storm.log.rows()) == Counter(first), seed
        # A newer micro-batch, while attempts of the one before are still about.
        second = [row.upper() for row in first]
        storm.blow(second, epoch=1)
        for attempt in storm.attempts:
            alone(attempt)
            fenced = attempt.epoch == 0 and isinstance(attempt.error, NewerWriterError)
            assert attempt.error is None or fenced, (seed, attempt.error)
        assert Counter(storm.log.rows()) == Counter(first + second), seed


def complete(log: Log, rows: list[bytes], *, stamp: int = 0, size: int = 2) -> Attempt:
    attempt = Attempt(log, cut_up(rows, list(range(0, len(rows), size))), epoch=0, stamp=stamp, window=3)
    alone(attempt)
    return attempt


def test_a_repeated_attempt_writes_nothing_whatever_its_order_and_batches() -> None:
    log = Log()
    rows = [b"%d" % number for number in range(40)]
    assert complete(log, rows, size=1).is_done
    assert complete(log, rows[::-1], stamp=1, size=7).is_done
    assert log.rows() == rows


def test_an_attempt_goes_on_behind_what_a_dead_one_wrote_among_the_rows_of_others() -> None:
    log = Log()
    dead = Attempt(log, [[b"a"], [b"b"], [b"c"]], epoch=0, stamp=0, window=3)
    for _ in range(4):
        dead.step()
    log.batches.append((header_of([b"x"], epoch=-1, sequence=-1, stamp=0, offset=log.end), [b"x"]))
    written = len(log.rows()) - 1
    assert 0 < written < 3
    assert complete(log, [b"c", b"b", b"a"], stamp=1, size=1).is_done
    assert Counter(log.rows()) == Counter([b"a", b"b", b"c", b"x"])


def test_rows_that_only_an_earlier_attempt_has_are_told() -> None:
    log = Log()
    complete(log, [b"a", b"b", b"c", b"d"])
    error = complete(log, [b"a", b"b", b"e"], stamp=1).error
    assert isinstance(error, OtherRowsWrittenError)
    assert "wrote 2 rows into t-0" in str(error)
    assert "\n" not in str(error)


class Known:
    """What a log says that has lost something."""

    def __init__(self, **fields: int) -> None:
        self.producer_epoch = fields.get("epoch", 0)
        self.first_sequence = fields.get("first_sequence", 0)
        self.first_offset = fields.get("first_offset", 10)
        self.next_sequence = fields.get("next_sequence", 3)
        self.end_offset = fields.get("end_offset", 13)


def test_rows_in_a_partition_that_this_attempt_has_no_rows_for_are_told() -> None:
    places = [(f"t-{number}", [Known(epoch=number % 4)]) for number in range(40)]
    refuse_rows_elsewhere("micro-batch 7", 4, [*places, ("t-40", [])])
    with pytest.raises(
        OtherRowsWrittenError, match=r"^micro-batch 7: .* into t-3, t-7 and 8 more, where"
    ) as told:
        refuse_rows_elsewhere("micro-batch 7", 3, [*places, ("t-40", [])])
    assert "\n" not in str(told.value)
    with pytest.raises(OtherRowsWrittenError, match="into t-0, where"):
        refuse_rows_elsewhere("micro-batch 7", 0, places[:4])


def refused_attempt() -> PartitionAttempt:
    core = PartitionAttempt(
        "query q, micro-batch 7, Spark partition 1", "t-0", PRODUCER_ID, 0, with_timestamps=False
    )
    core.refused(table([b"a"]))
    return core


def test_what_cannot_be_read_back_whole_is_told() -> None:
    with pytest.raises(WrittenRowsGoneError, match=r"micro-batch 7.*only from its row 5 on"):
        refused_attempt().look(Known(first_sequence=5))
    core = refused_attempt()
    assert core.look(Known()) == Read(10, 13)
    core.saw(PRODUCER_ID, 0, 10, table([b"a", b"b"]))
    core.saw(5, 0, 12, table([b"c"]))
    for _ in range(ROUNDS_WITHOUT_NEWS_MAX):
        assert core.look(Known()) == Read(13, 13)
    with pytest.raises(WrittenRowsGoneError, match=r"holds 2 rows .* should hold 3"):
        core.look(Known())


def test_a_newer_micro_batch_is_told() -> None:
    with pytest.raises(NewerWriterError, match="a newer micro-batch or txnVersion"):
        refused_attempt().look(Known(epoch=1))


def test_a_log_that_has_forgotten_what_it_acknowledged_is_looked_at_again_before_that_is_told() -> None:
    """A leader that does not know yet that it is none may say so."""
    for stale in (None, Known(epoch=-1)):
        core = refused_attempt()
        core.acknowledged(3, 2)
        for _ in range(ROUNDS_WITHOUT_NEWS_MAX):
            assert core.look(stale) == Read(0, 0)
        with pytest.raises(WrittenRowsGoneError, match="forgotten"):
            core.look(stale)
    core = refused_attempt()
    core.acknowledged(10, 2)
    assert core.look(None) == Read(0, 0)
    assert core.look(Known(next_sequence=2, end_offset=12)) == Read(10, 12)
    core.saw(PRODUCER_ID, 0, 10, table([b"x", b"y"]))
    assert isinstance(core.look(Known(next_sequence=2, end_offset=12)), GoOn)


def test_rounds_without_news_come_at_growing_bounded_pauses_and_news_ends_them() -> None:
    core = refused_attempt()
    pauses = []
    for _ in range(ROUNDS_WITHOUT_NEWS_MAX):
        pauses.append(core.pause_ms)
        core.look(None)
        core.refused(table([b"a"]))
    assert pauses[:4] == [0, 10, 20, 40]
    assert pauses == sorted(pauses)
    assert pauses[-1] == LOOK_AGAIN.maximum_ms
    assert 5_000 < sum(pauses) < 30_000
    core.acknowledged(3, 1)
    assert core.pause_ms == 0


def test_a_conflict_without_news_ends() -> None:
    core = refused_attempt()
    for _ in range(ROUNDS_WITHOUT_NEWS_MAX):
        assert isinstance(core.look(None), GoOn)
        core.refused(table([b"a"]))
    with pytest.raises(ConflictPersistsError):
        core.look(None)


@given(
    st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=4),
    st.lists(st.lists(st.integers(0, 5), max_size=6), max_size=4),
)
def test_the_multiset_counts(added: list[list[int]], struck: list[list[int]]) -> None:
    def digests(numbers: list[int]) -> "np.ndarray[tuple[int], np.dtype[np.bytes_]]":
        return digests_of(table([b"%d" % number for number in numbers]), with_timestamps=False)

    multiset, model = RowMultiset(), Counter[int]()

    def both() -> Iterator[tuple[str, list[int]]]:
        for number in range(max(len(added), len(struck))):
            yield from (("add", each) for each in added[number : number + 1])
            yield from (("strike", each) for each in struck[number : number + 1])

    for action, numbers in both():
        if action == "add":
            multiset.add(digests(numbers))
            model.update(numbers)
            continue
        expected = []
        for number in numbers:
            expected.append(model[number] > 0)
            model[number] -= expected[-1]
        assert multiset.strike(digests(numbers)).tolist() == expected
        assert len(multiset) == model.total()


def test_rows_are_told_apart_by_every_column_and_nothing_else() -> None:
    headers = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

    def digest(key: bytes | None, value: bytes | None, given: object = None, time_us: int = 0) -> bytes:
        columns = [
            pa.array([key], pa.binary()),
            pa.array([value], pa.binary()),
            pa.array([time_us], pa.timestamp("us", tz="UTC")),
            pa.array([given], headers),
        ]
        names = ["key", "value", "timestamp", "headers"]
        return bytes(digests_of(pa.record_batch(columns, names), with_timestamps=True)[0])

    h = {"key": "k", "value": b"v"}
    rows = [
        digest(b"ab", b"c"), digest(b"a", b"bc"), digest(None, b"abc"), digest(b"", b"abc"),
        digest(b"abc", None), digest(b"abc", b""), digest(b"ab", b"c", []), digest(b"ab", b"c", [h]),
        digest(b"ab", b"c", [h, h]), digest(b"ab", b"c", [{"key": "kv", "value": None}]),
        digest(b"ab", b"c", [{"key": "kv", "value": b""}]), digest(b"ab", b"c", time_us=1),
    ]  # fmt: skip
    assert len(set(rows)) == len(rows)
    with_columns = pa.record_batch(
        [pa.array([None], pa.binary()), pa.array([b"v"], pa.binary()), pa.array([None], headers)],
        ["key", "value", "headers"],
    )
    assert digests_of(with_columns, False)[0] == digests_of(table([b"v"]), False)[0]
