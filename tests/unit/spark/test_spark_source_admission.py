"""How much a micro-batch takes: not beyond the end, not past a record, something where something waits."""

from hightide_spark.core.admission import Patience, admit
from hightide_spark.core.ranges import between
from hightide_spark.core.stream_offsets import StreamOffsets, TopicOffsets
from hypothesis import given
from hypothesis import strategies as st

ID = "0" * 32
# Of each partition of one topic: where it starts (None: it is new), and how many records wait in it.
LOGS = st.lists(
    st.tuples(st.none() | st.integers(0, 1 << 40), st.integers(0, 1 << 40)), min_size=1, max_size=8
)


def offsets(numbers: dict[int, int]) -> StreamOffsets:
    return {"t": TopicOffsets(ID, numbers)}


def logs(partitions: list[tuple[int | None, int]]) -> tuple[StreamOffsets, StreamOffsets]:
    start = {number: at for number, (at, _) in enumerate(partitions) if at is not None}
    end = {number: (at or 0) + size for number, (at, size) in enumerate(partitions)}
    return offsets(start), offsets(end)


@given(partitions=LOGS, max_records=st.integers(1, 1 << 41))
def test_a_batch_stays_within_its_bound_and_within_the_log(
    partitions: list[tuple[int | None, int]], max_records: int
) -> None:
    start, end = logs(partitions)
    admitted = admit(start, end, max_records)["t"].offsets
    for number, offset in end["t"].offsets.items():
        assert start["t"].offsets.get(number, 0) <= admitted[number] <= offset
    taken = sum(each.size for each in between(start, offsets(dict(admitted))))
    assert taken == min(max_records, sum(size for _, size in partitions))


@given(partitions=LOGS, max_records=st.integers(1 << 37, 1 << 40))
def test_batch_after_batch_reads_everything_once(
    partitions: list[tuple[int | None, int]], max_records: int
) -> None:
    start, end = logs(partitions)
    read = 0
    for _ in range(100):
        upto = admit(start, end, max_records)
        if upto == start:
            break
        read += sum(each.size for each in between(start, upto))
        start = upto
    assert (start, read) == (end, sum(size for _, size in partitions))


def test_a_partition_with_little_in_it_is_not_starved() -> None:
    start, end, seen = offsets({0: 0, 1: 0}), {0: 0, 1: 0}, 0
    for _ in range(50):
        end = {0: end[0] + 100, 1: end[1] + 1}
        start = admit(start, offsets(end), 10)
        seen = start["t"].offsets[1]
    assert seen > 0


def test_no_bound_takes_everything() -> None:
    start, end = logs([(3, 5), (None, 7)])
    assert admit(start, end, None) == end
    assert admit(start, end, 12) == end


def test_a_batch_waits_for_so_many_records_but_not_for_ever() -> None:
    patience = Patience(min_records=10, max_delay_ms=1000)
    assert not patience.waits(0, 5.0)  # the first one waits for nothing
    patience = patience.after_batch(5.0)
    assert patience.waits(9, 1004.0)
    assert not patience.waits(10, 6.0)
    assert not patience.waits(9, 1005.0)
    assert patience.after_batch(1005.0).waits(9, 2004.0)
    assert not Patience(0, 1000).after_batch(5.0).waits(0, 5.0)
