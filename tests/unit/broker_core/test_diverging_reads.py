"""A consumer says in which epoch it read its last record; a leader that lost it says so (KIP-320)."""

from __future__ import annotations

import pytest
from hightide_broker.core.events import RecordsExpired, Ticked
from hightide_broker.core.isr_state import PendingShrink
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.core.reads import LineageDiverges, NothingCommittedYet, ReadUpTo, consumer_fetch
from hightide_broker.core.refusals import Refusal
from unit.broker_core.replica_pair import ReplicaPair
from unit.broker_core.test_isr import isr_of


def fetch(
    pair: ReplicaPair, leader: int, offset: int, read_in: int
) -> ReadUpTo | NothingCommittedYet | LineageDiverges | Refusal:
    return consumer_fetch(pair[leader].state, offset, -1, read_in)


def may_agree_up_to(offset: int, epoch: int) -> LineageDiverges:
    return LineageDiverges(EpochEnd(epoch, offset))


def led_by_1_with_a_b_c(pair: ReplicaPair) -> None:
    """Everybody has a; b and c are committed by broker 1 alone."""
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(1, 2, isr=(1,))
    pair[1].produces("b", "c")
    assert fetch(pair, 1, 3, 2) == NothingCommittedYet(3), "a consumer has read all three"


def elect_unclean(pair: ReplicaPair, leader: int, epoch: int) -> None:
    pair.decide(leader, epoch, isr=(leader,), to=(leader,))


def test_a_consumer_that_is_beyond_the_new_leaders_log_is_told_where_it_ends(pair: ReplicaPair) -> None:
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    assert fetch(pair, 2, 3, 2) == may_agree_up_to(1, 1)


def test_a_consumer_is_told_also_when_the_new_leader_has_other_records_there(pair: ReplicaPair) -> None:
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    pair[2].produces("x", "y", "z", "z")
    assert fetch(pair, 2, 3, 2) == may_agree_up_to(1, 1)
    assert fetch(pair, 2, 3, NO_EPOCH) == ReadUpTo(5), "who does not say what it read cannot be told"


def test_a_consumer_is_told_also_when_the_lost_epoch_is_the_one_that_goes_on(pair: ReplicaPair) -> None:
    """b and c were written in the epoch of a, so that the new leader knows the epoch and has less of it."""
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2)
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("b", "c")
    elect_unclean(pair, 2, 2)
    pair[2].produces("x", "y", "z")
    assert fetch(pair, 2, 3, 1) == may_agree_up_to(1, 1)
    assert fetch(pair, 2, 1, 1) == ReadUpTo(4), "what was read before is still there"


def test_a_consumer_is_told_also_when_an_older_epoch_is_longer_than_what_it_read(pair: ReplicaPair) -> None:
    """Broker 1 alone has b and c; broker 2 wrote x in their place, which was read; then broker 1 leads
    again."""
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("b", "c")
    elect_unclean(pair, 2, 2)
    pair[2].produces("x")
    assert fetch(pair, 2, 2, 2) == NothingCommittedYet(2)
    elect_unclean(pair, 1, 3)
    assert fetch(pair, 1, 2, 2) == may_agree_up_to(1, 1), "offset 1 is b now, and was x"


def test_a_clean_election_is_no_alarm(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.catch_up(2, 3)
    pair.decide(2, 2)
    assert fetch(pair, 2, 2, 1) == NothingCommittedYet(2)
    pair[2].produces("c")
    pair.catch_up(1, 3)
    assert fetch(pair, 2, 2, 1) == ReadUpTo(3)
    assert fetch(pair, 2, 3, 2) == NothingCommittedYet(3)


def test_an_epoch_in_which_nothing_was_written_is_no_alarm(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2, 3)
    pair.decide(2, 2)
    assert fetch(pair, 2, 1, 1) == NothingCommittedYet(1)
    pair.catch_up(1, 3)
    pair.decide(3, 3)
    pair[3].produces("b")
    pair.catch_up(1, 2)
    assert fetch(pair, 3, 1, 1) == ReadUpTo(2)
    assert fetch(pair, 3, 2, 3) == NothingCommittedYet(2)


@pytest.mark.parametrize("named", [NO_EPOCH, -7])
def test_a_position_without_a_last_record_is_no_alarm(pair: ReplicaPair, named: int) -> None:
    """It was reached by a seek or a look-up."""
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    pair[2].produces("x", "y")
    assert fetch(pair, 2, 2, named) == ReadUpTo(3)


def test_nothing_comes_before_offset_0(pair: ReplicaPair) -> None:
    led_by_1_with_a_b_c(pair)
    for epoch in (0, 1, 2):
        assert fetch(pair, 1, 0, epoch) == ReadUpTo(3)


def test_an_epoch_that_this_leader_has_not_heard_of_makes_it_the_stale_one(pair: ReplicaPair) -> None:
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    pair[2].produces("x", "y", "z")
    assert fetch(pair, 1, 3, 3) is Refusal.UNKNOWN_LEADER_EPOCH, "broker 1 has not heard of its successor"


def test_an_epoch_that_retention_has_deleted_is_no_alarm(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("a", "b")
    pair.decide(1, 5, isr=(1,))
    pair[1].produces("c", "d")
    del pair[1].log[:2]
    pair[1].happens(RecordsExpired(2))
    assert pair[1].state.epochs.entries[0].epoch == 5
    assert fetch(pair, 1, 2, 1) == ReadUpTo(4), "the record before it is deleted, and nothing contradicts it"
    assert fetch(pair, 1, 1, 1) is Refusal.OFFSET_OUT_OF_RANGE, "retention has passed it"
    assert fetch(pair, 1, 3, 1) == may_agree_up_to(2, NO_EPOCH), "offset 2 is of epoch 5, and not of 1"


def test_an_epoch_that_retention_has_cut_short_is_no_alarm(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,))
    pair[1].produces("a", "b", "c")
    del pair[1].log[:1]
    pair[1].happens(RecordsExpired(1))
    for offset, expected in ((1, ReadUpTo(3)), (2, ReadUpTo(3)), (3, NothingCommittedYet(3))):
        assert fetch(pair, 1, offset, 1) == expected


def test_a_consumer_is_never_sent_below_the_first_offset(pair: ReplicaPair) -> None:
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    pair[2].produces("x", "y", "z")
    del pair[2].log[:3]
    pair[2].happens(RecordsExpired(3))
    assert fetch(pair, 2, 4, 2) == may_agree_up_to(3, NO_EPOCH)


def test_a_partition_of_which_a_number_was_used_again_has_nothing_of_the_old_one(pair: ReplicaPair) -> None:
    """Its epochs go on where the old ones ended."""
    pair.decide(1, 9, isr=(1,))
    pair[1].produces("x", "y")
    assert fetch(pair, 1, 2, 4) == may_agree_up_to(0, NO_EPOCH)


def test_an_offset_beyond_the_end_is_out_of_range_for_who_does_not_say_what_it_read(
    pair: ReplicaPair,
) -> None:
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    assert fetch(pair, 2, 3, NO_EPOCH) is Refusal.OFFSET_OUT_OF_RANGE


def test_a_leader_whose_isr_is_in_doubt_does_not_say_that_an_offset_was_never_written(
    pair: ReplicaPair,
) -> None:
    """It may be cut off: another one leads by now, and has committed more."""
    pair.decide(1, 1, to=(1, 2, 3))
    pair.catch_up(2, 3)
    assert fetch(pair, 1, 5, NO_EPOCH) is Refusal.OFFSET_OUT_OF_RANGE
    pair[1].produces("a", now_ms=100)
    pair[1].happens(Ticked(60_000))
    assert isinstance(isr_of(pair), PendingShrink)
    assert fetch(pair, 1, 5, NO_EPOCH) is Refusal.OFFSET_NOT_AVAILABLE
    assert fetch(pair, 1, -1, NO_EPOCH) is Refusal.OFFSET_OUT_OF_RANGE, "that it does know"


def test_nor_does_a_leader_that_has_not_committed_in_its_epoch_yet(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.fetch(2)
    pair.decide(2, 2, isr=(2, 3), to=(2,))
    assert fetch(pair, 2, 5, NO_EPOCH) is Refusal.OFFSET_NOT_AVAILABLE


def test_who_names_another_leader_epoch_is_fenced_first(pair: ReplicaPair) -> None:
    led_by_1_with_a_b_c(pair)
    elect_unclean(pair, 2, 3)
    assert consumer_fetch(pair[2].state, 3, 2, 2) is Refusal.FENCED_LEADER_EPOCH
    assert consumer_fetch(pair[2].state, 3, 4, 2) is Refusal.UNKNOWN_LEADER_EPOCH
    assert consumer_fetch(pair[1].state, 3, 2, 2) == NothingCommittedYet(3)
