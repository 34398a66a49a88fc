"""How far moves are: bytes and offsets of new replicas against the leader's, the pace, and the time left."""

from hightide import Reassignment, ReplicaDescription, TopicPartition
from hightide_cli.reassign.progress import Copy, Watched, progress_of

HERE, THERE = TopicPartition("t", 0), TopicPartition("t", 1)
TOPIC_ID = bytes(16)


def move(partition: TopicPartition = HERE, isr: tuple[int, ...] = (1, 2)) -> Reassignment:
    return Reassignment(partition, TOPIC_ID, (1, 2), (1, 3), (1, 2, 3), isr, 1)


def replica(
    broker_id: int, size_bytes: int, partition: TopicPartition = HERE, topic_id: bytes = TOPIC_ID
) -> ReplicaDescription:
    end = size_bytes // 10
    return ReplicaDescription(partition, topic_id, broker_id, broker_id == 1, 0, 0, end, end, size_bytes)


def test_a_new_replica_is_as_far_as_its_bytes_and_offsets() -> None:
    found = progress_of(move(), [replica(1, 1_000), replica(2, 1_000), replica(3, 250)])
    assert found.copies == (Copy(3, 250, 1_000, 25, 100, in_sync=False),)
    assert (found.bytes_done, found.bytes_total) == (250, 1_000)


def test_a_replica_that_is_in_sync_is_done_whatever_its_files_take() -> None:
    found = progress_of(move(isr=(1, 2, 3)), [replica(1, 1_000), replica(3, 900)])
    assert found.copies == (Copy(3, 1_000, 1_000, 90, 100, in_sync=True),)


def test_a_replica_of_another_topic_of_the_name_does_not_count() -> None:
    found = progress_of(move(), [replica(1, 1_000), replica(3, 700, topic_id=bytes(range(16)))])
    assert found.bytes_done == 0


def test_without_the_leader_the_longest_replica_is_what_there_is_to_copy() -> None:
    found = progress_of(move(), [replica(2, 800), replica(3, 200)])
    assert (found.bytes_done, found.bytes_total) == (200, 800)
    assert progress_of(move(), []).bytes_total == 0


def test_the_pace_and_the_time_left_come_from_what_was_copied_between_looks() -> None:
    watched = Watched()
    first = watched.look(0.0, [move()], [replica(1, 1_000), replica(3, 100)])
    assert (first.bytes_per_s, first.seconds_left) == (None, None)
    second = watched.look(2.0, [move()], [replica(1, 1_000), replica(3, 300)])
    assert (second.bytes_per_s, second.seconds_left) == (100.0, 7.0)


def test_a_move_that_is_not_there_any_more_is_finished() -> None:
    watched = Watched()
    sizes = [replica(1, 1_000), replica(3, 100), replica(1, 500, THERE), replica(3, 500, THERE)]
    assert watched.look(0.0, [move(), move(THERE)], sizes).move_count == 2
    found = watched.look(1.0, [move()], sizes)
    assert (found.finished, found.move_count) == ((THERE,), 2)
    assert (found.bytes_done, found.bytes_total) == (600, 1_500)
    assert watched.target_of(THERE) == (1, 3)
    assert watched.look(2.0, [], sizes).finished == (HERE, THERE)


def test_a_move_that_begins_anew_is_not_finished() -> None:
    watched = Watched()
    watched.look(0.0, [move()], [])
    watched.look(1.0, [], [])
    assert watched.look(2.0, [move()], []).finished == ()


def test_only_the_moves_of_interest_are_watched() -> None:
    found = Watched({HERE: (1, 3)}).look(0.0, [move(), move(THERE)], [])
    assert [each.move.partition for each in found.moves] == [HERE]


def test_it_is_said_when_nothing_has_moved_for_a_while() -> None:
    watched = Watched()
    sizes = [replica(1, 1_000), replica(3, 100)]
    assert watched.look(0.0, [move()], sizes).stalled_s == 0
    assert watched.look(14.0, [move()], sizes).stalled_s == 0
    stalled = watched.look(20.0, [move()], sizes)
    assert (stalled.stalled_s, stalled.bytes_per_s, stalled.seconds_left) == (20.0, 0.0, None)
    assert watched.look(21.0, [move()], [replica(1, 1_000), replica(3, 200)]).stalled_s == 0


def test_a_move_that_was_done_before_the_first_look_is_finished() -> None:
    watched = Watched({HERE: (3, 1)})
    found = watched.look(0.0, [], [])
    assert (found.finished, found.moves, found.bytes_total) == ((HERE,), (), 0)
    assert watched.target_of(HERE) == (3, 1)
