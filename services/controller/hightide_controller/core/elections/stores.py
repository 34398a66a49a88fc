"""From a set of partitions to multis, and from the outcomes of the multis to messages for brokers.

Each partition has at most one write under way. Events about it meanwhile are remembered in `state.again`, and
decided when the write is answered, on what ZooKeeper then holds.

One stale version rolls back its whole multi, and ZooKeeper names only the first one. So the refused multi,
and nothing else, is read again in one multiRead and decided anew. Two rounds correct any number of stale
versions in it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from hightide_runtime.topics.topic_configs import allows_unclean, min_insync_replicas
from msgspec.structs import replace

from hightide_controller.core.effects import (
    Decision,
    Effect,
    LeaderAndIsrWrite,
    LogWarning,
    PartitionOutcome,
    ReadStates,
    Refusal,
    SendLeaderAndIsr,
    SendUpdateMetadata,
    StoreLeaderAndIsr,
)
from hightide_controller.core.elections.requested_election import elect, settle, settle_carried
from hightide_controller.core.events import StatesRead
from hightide_controller.core.partition_election import Candidates, decide
from hightide_controller.core.state.cluster_state import ClusterState, StoreInFlight
from hightide_controller.core.state.multi_limits import BYTES_MAX, OPERATIONS_MAX, cost_of
from hightide_controller.core.state.request_purposes import ShutsDown
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, TopicPartition

__all__ = [
    "READS_MAX",
    "candidates_for",
    "candidates_of",
    "decide_again",
    "decision_of",
    "on_committed",
    "on_failed",
    "on_states_read",
    "read_again",
    "reconsider",
    "send_decisions",
    "send_metadata",
]

READS_MAX: Final = 1_000


def candidates_of(state: ClusterState, bounced: frozenset[int] = frozenset()) -> Candidates:
    """The brokers that can lead now."""
    return Candidates(
        live=frozenset(broker.broker_id for broker in state.live_brokers()),
        leaving=frozenset(state.shutting_down),
        bounced=bounced,
    )


def candidates_for(state: ClusterState, name: TopicPartition, candidates: Candidates) -> Candidates:
    """The candidates for this partition: without brokers that cannot use their replica of it
    (failed_replicas.py), with those whose replica is damaged (damaged_replicas.py), and with the topic's
    setting for its ISR."""
    return _of_partition(state, name, _of_topic(state, name.topic, candidates))


def _of_topic(state: ClusterState, topic: str, candidates: Candidates) -> Candidates:
    minimum = min_insync_replicas(state.topics[topic].configs)
    if minimum == candidates.min_insync_replicas:
        return candidates
    return replace(candidates, min_insync_replicas=minimum)


def _of_partition(state: ClusterState, name: TopicPartition, of_topic: Candidates) -> Candidates:
    failed, damaged = state.failed_replicas.get(name), state.damaged_replicas.get(name)
    if not (failed or damaged or state.silent):
        return of_topic
    return replace(
        of_topic,
        live=of_topic.live - (failed or frozenset()),
        failed=failed or frozenset(),
        damaged=damaged or frozenset(),
        silent=_silent_for(state, name) if state.silent else frozenset(),
    )


def _silent_for(state: ClusterState, name: TopicPartition) -> frozenset[int]:
    """The brokers that do not answer, without a leader that has acknowledged this partition (silence.py)."""
    known = state.partitions[name].leader_and_isr
    leader, epoch = (NO_LEADER, 0) if known is None else (known.leader, known.leader_epoch)
    return frozenset(
        broker_id
        for broker_id, leads in state.silent.items()
        if broker_id != leader or leads.get(name) == epoch
    )


def reconsider(
    state: ClusterState,
    names: Collection[TopicPartition],
    cause: str,
    bounced: frozenset[int] = frozenset(),
    *,
    is_news: bool = False,
) -> list[Effect]:
    """Decide about each partition and store what changes; busy partitions are decided later.

    Elections come before mere shrinks, because clients wait for them. There is no election for a topic that
    is being deleted. `is_news`: a leader has changed the ISR, and nothing else has happened.
    """
    candidates = replace(candidates_of(state, bounced), leaving_may_follow=is_news)
    elections: list[LeaderAndIsrWrite] = []
    shrinks: list[LeaderAndIsrWrite] = []
    effects: list[Effect] = []
    of_topics: dict[str, Candidates] = {}  # A topic has many partitions.
    for name in sorted(names):
        if name in state.storing or name in state.rereading:
            state.again[name] = state.again.get(name, frozenset()) | bounced
            continue
        if state.is_being_deleted(name.topic):
            if name in state.elections:
                message = f"topic {name.topic!r} is being deleted"
                settle(state, name, PartitionOutcome(name, Refusal.TOPIC_BEING_DELETED, message))
            continue
        of_topic = of_topics.get(name.topic)
        if of_topic is None:
            of_topic = of_topics[name.topic] = _of_topic(state, name.topic, candidates)
        decided = _decided(state, name, _of_partition(state, name, of_topic))
        if decided is None:
            continue
        known = state.partitions[name].leader_and_isr
        change = LeaderAndIsrWrite(name, None if known is None else known.partition_epoch, decided)
        if known is None or decided.leader_epoch != known.leader_epoch:
            elections.append(change)
        else:
            shrinks.append(change)
        if known is not None and decided.is_unclean:
            effects.append(LogWarning(_unclean_message(name, known, decided)))
    for changes in (elections, shrinks):
        effects.extend(_store(state, changes, cause, bounced))
    return effects


def _decided(state: ClusterState, name: TopicPartition, candidates: Candidates) -> LeaderAndIsr | None:
    """What to write for a partition that is free, or None."""
    partition = state.partitions[name]
    topic = state.topics[name.topic]
    election = state.elections.get(name)
    if election is not None:
        found = elect(election.kind, partition, candidates, state.controller_epoch)
        if isinstance(found, LeaderAndIsr):
            election.before = partition.leader_and_isr
            return found
        settle(state, name, found)
    return decide(
        partition,
        candidates,
        state.controller_epoch,
        unclean=allows_unclean(topic.configs),
        first_leader_epoch=state.first_leader_epoch_of(name),
    )


def _unclean_message(name: TopicPartition, known: LeaderAndIsr, decided: LeaderAndIsr) -> str:
    return (
        f"unclean election of {name.topic}-{name.partition}: broker {decided.leader} leads in epoch "
        f"{decided.leader_epoch} though it was not in the ISR {list(known.isr)}; committed records that only "
        "those held are lost"
    )


def _store(
    state: ClusterState, changes: list[LeaderAndIsrWrite], cause: str, bounced: frozenset[int]
) -> Iterable[StoreLeaderAndIsr]:
    """Cut the changes into multis within ZooKeeper's limits."""
    chunk: list[LeaderAndIsrWrite] = []
    operations = 1
    size_bytes = 0
    for change in changes:
        cost, weight = cost_of(change)
        if chunk and (operations + cost > OPERATIONS_MAX or size_bytes + weight > BYTES_MAX):
            yield _multi(state, chunk, cause, bounced)
            chunk, operations, size_bytes = [], 1, 0
        chunk.append(change)
        operations += cost
        size_bytes += weight
    if chunk:
        yield _multi(state, chunk, cause, bounced)


def _multi(
    state: ClusterState, chunk: list[LeaderAndIsrWrite], cause: str, bounced: frozenset[int]
) -> StoreLeaderAndIsr:
    store_id = state.next_store_id
    state.next_store_id += 1
    changes = tuple(chunk)
    topic_ids = {change.name.topic: state.topics[change.name.topic].topic_id for change in changes}
    state.stores[store_id] = StoreInFlight(changes, cause, bounced, topic_ids)
    for change in changes:
        assert change.name not in state.storing
        state.storing.add(change.name)
    return StoreLeaderAndIsr(store_id, state.controller_epoch_version, changes, cause)


def on_committed(state: ClusterState, store: StoreInFlight) -> list[Effect]:
    """Handle committed decisions: brokers get them at once, without waiting for other multis."""
    names = []
    replaced = []
    for change in store.changes:
        state.storing.discard(change.name)
        if change.name not in state.partitions:
            continue
        if state.topics[change.name.topic].topic_id == store.topic_ids[change.name.topic]:
            state.record(change.name, change.decided)
            names.append(change.name)
        else:
            # It was about an earlier topic of this name, which an operator has deleted meanwhile.
            replaced.append(change.name)
    settle_carried(state, names)
    effects = send_decisions(state, names, store.cause)
    effects += send_metadata(state, names, store.cause)
    effects += decide_again(state, names, store.cause)
    return effects + _reread(state, replaced, store)


def on_failed(state: ClusterState, store: StoreInFlight, *, is_unknown: bool) -> list[Effect]:
    """Handle a multi that failed or has an unknown outcome: read what ZooKeeper holds before the next
    decision."""
    names = []
    for change in store.changes:
        state.storing.discard(change.name)
        if change.name not in state.partitions:
            continue
        if not is_unknown and change.expected_partition_epoch is None:
            # Perhaps the topic does not exist any more, so that no partition can be created below it. Nothing
            # is created again before all of it was read: ZooKeeper would refuse it again, at once.
            _read_with_topic(state, change.name, store)
            continue
        if is_unknown and change.expected_partition_epoch is not None:
            state.doubtful[change.name] = change.expected_partition_epoch
        names.append(change.name)
    return _reread(state, names, store)


def _read_with_topic(state: ClusterState, name: TopicPartition, store: StoreInFlight) -> None:
    state.want_read(name.topic, store.cause)
    state.work[name.topic].unsure.add(name)
    state.rereading.add(name)
    state.again[name] = state.again.get(name, frozenset()) | store.bounced


def _reread(state: ClusterState, names: list[TopicPartition], store: StoreInFlight) -> list[Effect]:
    for name in names:
        state.rereading.add(name)
        state.again[name] = state.again.get(name, frozenset()) | store.bounced
    return read_again(names, store.cause)


def read_again(names: list[TopicPartition], cause: str) -> list[Effect]:
    """ReadStates for these partitions, in bounded pieces."""
    return [
        ReadStates(tuple(names[start : start + READS_MAX]), cause)
        for start in range(0, len(names), READS_MAX)
    ]


def on_states_read(state: ClusterState, event: StatesRead, *, is_topic_read: bool = False) -> list[Effect]:
    """Take over what ZooKeeper holds, send brokers what is new to them, and decide again.

    A decision of this controller with an unknown outcome shows here as a difference too, so it is sent like
    any other. A partition that is being written is left alone. A read that is older than what is known is
    ignored, unless it was made because a write failed: then it is the truth.

    `is_topic_read`: the topic itself was read with it. Otherwise, if a leaderAndISR is gone, its topic may be
    gone or be another one, so the topic is read before anything is created there.
    """
    changed: list[TopicPartition] = []
    decidable: list[TopicPartition] = []
    news: set[TopicPartition] = set()
    for name, read in event.states.items():
        partition = state.partitions.get(name)
        if partition is None or name in state.storing:
            state.rereading.discard(name)
            state.doubtful.pop(name, None)
            continue
        known = partition.leader_and_isr
        if name not in state.rereading and not _is_newer(read, known):
            if known is None and read is not None:
                # Its invalid content was corrected, or it was an earlier topic's.
                state.want_read(name.topic, event.cause)
            continue
        work = state.work.get(name.topic)
        if work is not None and name in work.unsure:
            # A multi about its topic failed, so all of the topic is being read.
            continue
        if read is None and known is not None and not is_topic_read:
            state.want_read(name.topic, event.cause)
            state.work[name.topic].unsure.add(name)
            continue
        if name not in state.rereading:
            news.add(name)
        state.rereading.discard(name)
        state.note_progress(name)
        decidable.append(name)
        if read != known:
            state.record(name, read)
            if read is not None:
                changed.append(name)
    effects = send_decisions(state, changed, event.cause)
    effects += send_metadata(state, changed, event.cause)
    effects += decide_again(state, decidable, event.cause)
    free = [name for name in decidable if name not in state.storing]
    effects += reconsider(state, [name for name in free if name not in news], event.cause)
    effects += reconsider(state, [name for name in free if name in news], event.cause, is_news=True)
    return effects + _settle_doubts(state, decidable, event.cause)


def _settle_doubts(state: ClusterState, names: list[TopicPartition], cause: str) -> list[Effect]:
    """Make sure that a write with an unknown outcome has happened or never will.

    If the znode still has the version on which the write builds, the write may be stored after the read, and
    no broker would be told. Only a later version proves that it is void. So if there is nothing to decide,
    the content of the znode is written once more.
    """
    changes: list[LeaderAndIsrWrite] = []
    for name in names:
        expected = state.doubtful.pop(name, None)
        known = state.partitions[name].leader_and_isr
        if expected is None or known is None or known.partition_epoch != expected or name in state.storing:
            continue
        again = replace(
            known, controller_epoch=state.controller_epoch, partition_epoch=known.partition_epoch + 1
        )
        changes.append(LeaderAndIsrWrite(name, known.partition_epoch, again))
    return list(_store(state, changes, cause, frozenset()))


def _is_newer(read: LeaderAndIsr | None, known: LeaderAndIsr | None) -> bool:
    if read is None or known is None:
        return False
    return read.partition_epoch > known.partition_epoch


def decide_again(state: ClusterState, names: Iterable[TopicPartition], cause: str) -> list[Effect]:
    """Decide about partitions that had to wait until they were free."""
    waiting: dict[frozenset[int], list[TopicPartition]] = {}
    for name in names:
        bounced = state.again.pop(name, None)
        if bounced is not None:
            waiting.setdefault(bounced, []).append(name)
    effects: list[Effect] = []
    for bounced, group in waiting.items():
        effects += reconsider(state, group, cause, bounced & frozenset(state.brokers))
    return effects


def decision_of(state: ClusterState, name: TopicPartition) -> Decision:
    """The decision that a broker gets about a partition with a znode."""
    partition = state.partitions[name]
    known = partition.leader_and_isr
    assert known is not None, name
    topic = state.topics[name.topic]
    work = state.work.get(name.topic)
    move = None if work is None else work.moves.get(name.partition)
    adding: tuple[int, ...] = ()
    if move is not None and move.original:
        # Only what is assigned: the order may be left from a deleted topic with the same name.
        adding = tuple(r for r in move.target if r not in move.original and r in partition.replicas)
    return Decision(
        name,
        topic.topic_id,
        partition.replicas,
        known,
        topic.first_leader_epochs.get(name.partition, 0),
        adding,
    )


def send_decisions(
    state: ClusterState, names: Collection[TopicPartition], cause: str, only_to: int | None = None
) -> list[Effect]:
    """One SendLeaderAndIsr for each live broker that holds a replica of any of them."""
    by_broker: dict[int, list[Decision]] = {}
    live = candidates_of(state).live
    if only_to is not None:
        live &= {only_to}
    for name in names:
        if state.is_being_deleted(name.topic):
            # Its znodes may be gone by now; its brokers only get an order to stop.
            continue
        decision = decision_of(state, name)
        for broker_id in decision.replicas:
            if broker_id in live:
                by_broker.setdefault(broker_id, []).append(decision)
    # New leaders first: writes wait for them, and followers only follow.
    leaders = {decision.state.leader for decisions in by_broker.values() for decision in decisions}
    effects: list[Effect] = []
    for broker_id in sorted(by_broker, key=lambda candidate: (candidate not in leaders, candidate)):
        sequence = state.take_sequence()
        decisions = tuple(by_broker[broker_id])
        epoch = state.brokers[broker_id].broker_epoch
        effects.append(SendLeaderAndIsr(broker_id, epoch, sequence, decisions, cause))
        for waiter in state.waiters.values():
            if any(decision.name in waiter.undecided for decision in decisions):
                waiter.unacknowledged[broker_id] = sequence
    return effects


def send_metadata(state: ClusterState, names: Collection[TopicPartition], cause: str) -> list[Effect]:
    """Send every live broker the metadata of these partitions; nothing if there are none."""
    receivers = tuple((broker.broker_id, broker.broker_epoch) for broker in state.live_brokers())
    if not names or not receivers:
        return []
    sequence = state.take_sequence()
    for waiter in state.waiters.values():
        if not isinstance(waiter.purpose, ShutsDown) and not waiter.undecided.isdisjoint(names):
            # A client that creates or grows a topic next asks any broker for it, most likely one of its
            # leaders.
            for broker_id in waiter.unacknowledged:
                waiter.unacknowledged[broker_id] = sequence
    return [SendUpdateMetadata(receivers, sequence, tuple(names), cause=cause)]
