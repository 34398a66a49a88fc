"""Becoming leader, follower, offline; and the fencing of what comes too late."""

from __future__ import annotations

import pytest
from hightide_broker.core.effects import (
    AbandonWaiters,
    AdvanceHighWatermark,
    AnswerProduces,
    Append,
    AskEpochEnd,
    PersistEpoch,
    Refuse,
    ReplicaStopped,
    StartFetching,
    StopFetching,
)
from hightide_broker.core.events import (
    DirectoryFailed,
    EpochEndAsked,
    Event,
    FollowerFetched,
    LeaderAndIsrDecided,
    ProduceArrived,
    SettingsChanged,
    StopRequested,
)
from hightide_broker.core.machine import step
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Role
from unit.broker_core.replica_pair import ReplicaPair


def test_a_new_leader_persists_where_its_epoch_begins_before_anything_else(pair: ReplicaPair) -> None:
    assert pair[1].happens(LeaderAndIsrDecided.dummy(1, 1)) == (PersistEpoch(1, 0),)
    assert pair[1].state.is_leader


def test_a_follower_with_an_empty_log_fetches_at_once(pair: ReplicaPair) -> None:
    assert pair[2].happens(LeaderAndIsrDecided.dummy(1, 1)) == (StartFetching(1, 1, 0),)


def test_a_follower_with_records_asks_about_its_last_epoch_first(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.catch_up(2)
    assert pair[2].happens(LeaderAndIsrDecided.dummy(3, 2)) == (AskEpochEnd(3, 2, 1, 1),)
    assert pair[2].state.role is Role.TRUNCATING


def test_a_leader_that_must_follow_abandons_those_who_wait(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    effects = pair[1].happens(LeaderAndIsrDecided.dummy(2, 2))
    assert effects == (AbandonWaiters(Refusal.NOT_LEADER), AskEpochEnd(2, 2, 1, 1))


def test_a_follower_that_must_lead_stops_fetching(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    assert pair[2].happens(LeaderAndIsrDecided.dummy(2, 2)) == (PersistEpoch(2, 0), StopFetching())


def test_a_partition_without_a_leader_waits_with_its_log(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    effects = pair[1].happens(LeaderAndIsrDecided.dummy(-1, 2, (1,)))
    assert effects == (AbandonWaiters(Refusal.PARTITION_OFFLINE),)
    assert pair[1].produces("b") == (Refuse(Refusal.PARTITION_OFFLINE),)
    assert pair[1].values == "a"


def test_the_only_member_of_the_isr_commits_alone(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1,), to=(1,))
    assert pair[1].produces("a", "b") == (Append(0, 1, 2), AdvanceHighWatermark(2), AnswerProduces(2))


@pytest.mark.parametrize(
    ("late", "refusal"),
    [
        (LeaderAndIsrDecided.dummy(2, 9, controller_epoch=4), Refusal.STALE_CONTROLLER_EPOCH),
        (LeaderAndIsrDecided.dummy(2, 2, controller_epoch=6), Refusal.FENCED_LEADER_EPOCH),
        (LeaderAndIsrDecided.dummy(1, 3, controller_epoch=5, partition_epoch=2), Refusal.FENCED_LEADER_EPOCH),
        (LeaderAndIsrDecided.dummy(2, 3, controller_epoch=5, partition_epoch=4), Refusal.INVALID_DECISION),
        (LeaderAndIsrDecided.dummy(2, 4, controller_epoch=5, replicas=(2, 3)), Refusal.NOT_ASSIGNED),
        (LeaderAndIsrDecided.dummy(1, 4, (2, 3), controller_epoch=5), Refusal.INVALID_DECISION),
        (StopRequested(4, 9, True, None), Refusal.STALE_CONTROLLER_EPOCH),
        (StopRequested(5, 2, True, None), Refusal.FENCED_LEADER_EPOCH),
        (StopRequested(5, 3, True, partition_epoch=2), Refusal.FENCED_LEADER_EPOCH),
    ],
    ids=lambda value: value.name if isinstance(value, Refusal) else type(value).__name__,
)
def test_a_command_from_the_past_changes_nothing(pair: ReplicaPair, late: Event, refusal: Refusal) -> None:
    pair[1].happens(LeaderAndIsrDecided.dummy(1, 3, controller_epoch=5))
    before = pair[1].state
    assert pair[1].happens(late) == (Refuse(refusal),)
    assert pair[1].state == before


@pytest.mark.parametrize(("epoch", "refusal"), [(2, "FENCED_LEADER_EPOCH"), (4, "UNKNOWN_LEADER_EPOCH")])
def test_every_request_is_fenced_by_the_leader_epoch(pair: ReplicaPair, epoch: int, refusal: str) -> None:
    pair.decide(1, 3, to=(1,))
    for request in (
        ProduceArrived.dummy(leader_epoch=epoch),
        FollowerFetched(2, epoch, 0, 0),
        EpochEndAsked(epoch, 1),
    ):
        assert pair[1].happens(request) == (Refuse(Refusal[refusal]),)


def test_a_follower_refuses_what_only_a_leader_answers(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    for request in (ProduceArrived.dummy(), FollowerFetched(3, 1, 0, 0), EpochEndAsked(1, 1)):
        assert pair[2].happens(request) == (Refuse(Refusal.NOT_LEADER),)


def test_the_same_decision_twice_has_no_effect(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    for broker_id in (1, 2, 3):
        assert pair[broker_id].happens(LeaderAndIsrDecided.dummy(1, 1)) == ()


def test_a_stopped_replica_obeys_only_newer_decisions(pair: ReplicaPair) -> None:
    pair.decide(1, 3)
    assert pair[2].happens(StopRequested(1, 3, True, None)) == (StopFetching(), ReplicaStopped(True))
    assert pair[2].happens(LeaderAndIsrDecided.dummy(1, 3)) == (Refuse(Refusal.FENCED_LEADER_EPOCH),)
    assert pair[2].happens(LeaderAndIsrDecided.dummy(1, 4)) == (StartFetching(1, 4, 0),)


def test_a_failed_log_directory_takes_the_replica_out_of_service(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    assert pair[1].happens(DirectoryFailed()) == (AbandonWaiters(Refusal.STORAGE_FAILED),)
    assert pair[1].happens(LeaderAndIsrDecided.dummy(2, 2)) == (Refuse(Refusal.STORAGE_FAILED),)
    assert pair[1].produces("a") == (Refuse(Refusal.STORAGE_FAILED),)


def test_a_leader_that_may_have_lost_its_tail_does_not_lead_on_in_its_old_epoch(pair: ReplicaPair) -> None:
    # Otherwise it would write other records under offsets that its followers hold already.
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair.fetch(2)
    pair[1].restarts(lost_records=2)
    again = LeaderAndIsrDecided.dummy(1, 1)
    assert pair[1].happens(again) == (Refuse(Refusal.FENCED_LEADER_EPOCH),)
    pair.decide(1, 2)
    assert pair[1].state.is_leader


def test_it_declines_though_its_log_does_not_know_the_epoch_any_more(pair: ReplicaPair) -> None:
    pair.decide(1, 1)
    pair[1].produces("a")
    pair.decide(1, 2)
    pair[1].produces("b")
    pair[1].epochs = {1: 0}
    pair[1].restarts(lost_records=1)
    pair.decide(1, 2, to=(1,))
    assert pair[1].state.role is Role.IDLE
    pair.decide(1, 3, to=(1,))
    assert pair[1].state.is_leader


def test_it_declines_an_epoch_that_its_log_names_also_where_an_older_decision_came_first(
    pair: ReplicaPair,
) -> None:
    pair.decide(1, 3)
    pair[1].produces("a", "b")
    pair[1].restarts(lost_records=1)
    assert pair[1].happens(LeaderAndIsrDecided.dummy(1, 2)) == (Refuse(Refusal.INVALID_DECISION),)
    assert pair[1].happens(LeaderAndIsrDecided.dummy(1, 3)) == (Refuse(Refusal.FENCED_LEADER_EPOCH),)


@pytest.mark.parametrize(
    ("late", "refusal"),
    [
        (LeaderAndIsrDecided.dummy(2, 2), Refusal.FENCED_LEADER_EPOCH),
        (LeaderAndIsrDecided.dummy(2, 4, controller_epoch=0), Refusal.STALE_CONTROLLER_EPOCH),
        (LeaderAndIsrDecided.dummy(-1, 3, partition_epoch=2), Refusal.FENCED_LEADER_EPOCH),
        (StopRequested(1, 2, True, None), Refusal.FENCED_LEADER_EPOCH),
        (StopRequested(1, 3, True, partition_epoch=2), Refusal.FENCED_LEADER_EPOCH),
    ],
    ids=["an older leader", "an older controller", "an older version", "a stop", "an older assignment"],
)
def test_what_came_before_the_decision_that_it_declined_comes_too_late(
    pair: ReplicaPair, late: Event, refusal: Refusal
) -> None:
    # It would follow the leader before the one that it was, and cut what it has committed since.
    pair.decide(1, 3, to=(1,))
    pair[1].produces("a")
    pair[1].restarts()
    pair.decide(1, 3, to=(1,))
    assert pair[1].happens(late) == (Refuse(refusal),)
    assert (pair[1].state.role, pair[1].values) == (Role.IDLE, "a")
    assert pair[1].happens(LeaderAndIsrDecided.dummy(1, 3)) == (Refuse(Refusal.FENCED_LEADER_EPOCH),)
    pair.decide(1, 4, to=(1,))
    assert pair[1].state.is_leader


def test_a_partition_that_goes_offline_in_the_epoch_that_it_declined_is_offline(pair: ReplicaPair) -> None:
    # A broker that leaves the ISR leaves it without a leader, in the same epoch.
    pair.decide(1, 3, to=(1,))
    pair[1].restarts()
    pair.decide(1, 3, to=(1,))
    pair[1].happens(LeaderAndIsrDecided.dummy(-1, 3, (1,), partition_epoch=4))
    assert pair[1].state.role is Role.OFFLINE
    assert pair[1].produces("b") == (Refuse(Refusal.PARTITION_OFFLINE),)


def test_a_follower_that_declines_to_lead_follows_on(pair: ReplicaPair) -> None:
    # Its log names an epoch that is not decided: ZooKeeper was restored from a backup.
    pair.decide(1, 3)
    pair[1].produces("a")
    pair[1].restarts()
    following, _ = step(pair[1].state, LeaderAndIsrDecided.dummy(2, 2))
    assert step(following, LeaderAndIsrDecided.dummy(1, 3)) == (
        following,
        (Refuse(Refusal.FENCED_LEADER_EPOCH),),
    )


def test_after_a_restart_a_replica_that_followed_first_leads_when_it_is_elected(
    pair: ReplicaPair,
) -> None:
    pair.decide(1, 1)
    pair[2].restarts()
    pair.decide(1, 1, to=(2,))
    pair.decide(2, 2, to=(2,))
    assert pair[2].state.is_leader


def test_a_leader_that_was_restarted_leads_on_in_a_new_epoch_only(pair: ReplicaPair) -> None:
    # Also where nothing is lost: an ISR that the earlier life asked for may be stored yet.
    pair.decide(1, 1)
    pair[1].produces("a", "b")
    pair[1].restarts()
    pair.decide(1, 1, to=(1,))
    assert pair[1].state.role is Role.IDLE
    pair.decide(1, 2, to=(1,))
    assert pair[1].state.is_leader
    assert pair[1].state.log_end_offset == 2


def test_settings_come_into_force_at_once(pair: ReplicaPair) -> None:
    pair.decide(1, 1, isr=(1, 2))
    pair[1].happens(SettingsChanged(min_insync_replicas=3, flush_on_disk=False))
    assert pair[1].produces("a") == (Refuse(Refusal.NOT_ENOUGH_REPLICAS),)
