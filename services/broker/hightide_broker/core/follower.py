"""What a follower does (V3 becomeFollower and section G, the follower's side).

Rules of this file: a follower acts on an answer only if it comes from the leader that it follows, asked
under the epoch in which it follows; any other answer is an echo of the past and is dropped without a word.
So is one about where an epoch ended that was asked for of another log than this one is by now.

Theory of operation (KIP-101, KIP-279; Kip320, rules 1 and 2). Two logs that hold a record of the same epoch
at the same offset are equal up to there, because one leader wrote that epoch. So the follower asks where
its newest epoch ended in the leader's log, cuts what lies beyond, and asks again while the leader does not
know the epoch that remains. Only then does it fetch. The high watermark plays no part in where that is.

But nobody is elected who lacks what is committed, unless uncleanly, and that is told with each decision
(`unclean_epoch`). So a cut below the own high watermark for which no such election is the reason says that
records are lost at the leader, by whatever fault: the follower stops there, with what may be the last copy.
"""

from __future__ import annotations

from dataclasses import replace

from hightide_broker.core.effects import (
    AbandonWaiters,
    AdvanceHighWatermark,
    AppendFetched,
    AskEpochEnd,
    Effect,
    Effects,
    PersistEpoch,
    ReportDivergence,
    StartFetching,
    StopFetching,
    TruncateAndStartAt,
    TruncateTo,
)
from hightide_broker.core.events import BatchesReceived, EpochEndReceived, FetchRefused, Span
from hightide_broker.core.high_watermark import followers_high_watermark
from hightide_broker.core.lineage import NO_EPOCH, EpochLineage
from hightide_broker.core.log_start import follow_log_start
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Decision, Replica, Role, enter

Step = tuple[Replica, Effects]


def become_follower_and_truncate(replica: Replica, decision: Decision) -> Step:
    """Follow another leader, or the same one in a new epoch (V3 becomeFollower, BecomeFollowerAndTruncate).

    An empty log has nothing to part from the leader's, so it is fetched into at once.
    """
    assert decision.leader != replica.settings.broker_id
    effects: Effects = (AbandonWaiters(Refusal.NOT_LEADER),) if replica.is_leader else ()
    if not replica.epochs.entries:
        assert replica.log_end_offset == replica.log_start_offset, "every record has an epoch"
        following, fetching = fetch_on(enter(replica, Role.FETCHING, decision))
        return following, (*effects, *fetching)
    following, asking = _ask(enter(replica, Role.TRUNCATING, decision))
    return following, (*effects, *asking)


def is_echo(replica: Replica, leader: int, leader_epoch: int) -> bool:
    """Whether an answer belongs to a leader or an epoch that this replica does not follow (any more)."""
    if not replica.is_follower or leader != replica.leader:
        return True
    return leader_epoch != replica.leader_epoch


def epoch_end_received(replica: Replica, event: EpochEndReceived) -> Step:
    """The leader told where an epoch ended in its log: cut there, and fetch or ask on (KIP-279)."""
    asked = event.question
    if replica.role is not Role.TRUNCATING or is_echo(replica, asked.leader, asked.leader_epoch):
        return replica, ()
    if (asked.epoch, asked.log_end_offset) != (replica.epochs.latest_epoch, replica.log_end_offset):
        return replica, ()  # What it was about is cut already; of what was fetched since it says nothing.
    if event.epoch > asked.epoch:
        return replica, ()  # Answers no question.
    beginning = new_beginning(replica, event)
    if beginning is not None:
        return begin_anew(replica, beginning)
    matches, offset = parting_point(replica, event)
    if is_unexplained(replica, offset):
        return diverge(replica, offset)
    cut, effects = _truncate(replica, min(offset, replica.log_end_offset))
    if matches or not cut.epochs.entries:
        fetching, more = fetch_on(cut.with_role(Role.FETCHING))
    else:
        fetching, more = _ask(cut)
    return fetching, (*effects, *more)


def new_beginning(replica: Replica, event: EpochEndReceived) -> int | None:
    """Where to begin anew, if nothing of this log is in the leader's; None where they may share something, or
    a cut will do.

    What lies before the own log start is the same in both, since it was committed, unless an unclean election
    came after it. Then the leader may have other records there, and whoever may lead needs them: ask for all.
    The leader says where its log begins if that is later.
    """
    start = replica.log_start_offset
    if event.epoch == NO_EPOCH:
        return event.end_offset if start < event.end_offset <= replica.log_end_offset else None
    if start == 0 or replica.epochs.entries[0].epoch <= event.epoch:
        return None
    if replica.decision.unclean_epoch > replica.epochs.latest_epoch:
        return 0
    return min(start, event.end_offset)


def is_unexplained(replica: Replica, offset: int) -> bool:
    """Whether a cut there would take committed records though no unclean election is the reason: none was, or
    this log goes on behind it, and so has been cut for it."""
    return offset < replica.high_watermark and replica.decision.unclean_epoch <= replica.epochs.latest_epoch


def diverge(replica: Replica, offset: int) -> Step:
    """Follow nobody, and cut nothing. A decision about the partition lets it ask again."""
    return enter(replica, Role.DIVERGED, replica.decision), (StopFetching(), ReportDivergence(offset))


def parting_point(replica: Replica, event: EpochEndReceived) -> tuple[bool, int]:
    """Where this log parts from the leader's as far as the answer tells, and whether that is the end of
    it."""
    if event.epoch == NO_EPOCH:
        # The leader's log begins with newer epochs than any here: from its start on nothing of this log is
        # in it.
        return True, event.end_offset
    mine = replica.epochs.end_offset_for(event.epoch, replica.log_start_offset, replica.log_end_offset)
    if mine.epoch == event.epoch:
        return True, min(mine.end_offset, event.end_offset)
    # This log has no record of that epoch. What it has of newer ones the leader does not have; ask about
    # the rest.
    assert mine.epoch < event.epoch
    return False, mine.end_offset


def batches_received(replica: Replica, event: BatchesReceived) -> Step:
    """The leader answered a fetch: append, and take min(leader's HW, own end) as high watermark (V3 G).

    Batches that are here already (an answer sent twice) are skipped; after a gap the fetch starts anew.
    """
    if replica.role is not Role.FETCHING or is_echo(replica, event.leader, event.leader_epoch):
        return replica, ()
    log_end_offset = replica.log_end_offset
    spans = event.spans
    if spans and replica.log_start_offset == log_end_offset and _holds(spans[0], log_end_offset):
        return _begin_inside(replica, event)
    if spans and spans[0].base_offset < log_end_offset:
        spans = tuple(span for span in spans if span.base_offset >= log_end_offset)
    if spans and (spans[0].base_offset != log_end_offset or not is_lineage(replica, spans)):
        return fetch_on(replica)
    effects: list[Effect] = []
    epochs = replica.epochs
    for span in spans:
        assert span.record_count > 0
        if span.leader_epoch > epochs.latest_epoch:
            epochs = epochs.assign(span.leader_epoch, span.base_offset)
            effects.append(PersistEpoch(span.leader_epoch, span.base_offset))
    if spans:
        new_end = spans[-1].end_offset
        effects.append(AppendFetched(log_end_offset, new_end))
        log_end_offset = new_end
    high_watermark = followers_high_watermark(replica, event.high_watermark, log_end_offset)
    advanced: Effects = ()
    if high_watermark != replica.high_watermark:
        advanced = (AdvanceHighWatermark(high_watermark),)
    starts_later = event.log_start_offset > replica.log_start_offset
    if not (effects or advanced or starts_later):
        return replica, ()
    appended = replica.with_log(epochs=epochs, log_end_offset=log_end_offset, high_watermark=high_watermark)
    if starts_later:
        appended, moved = follow_log_start(appended, event.log_start_offset)
        effects += moved
    return appended, (*effects, *advanced)


def _holds(span: Span, offset: int) -> bool:
    return span.base_offset < offset < span.end_offset


def _begin_inside(replica: Replica, event: BatchesReceived) -> Step:
    """An empty log begins inside the first batch that comes, as the leader's does: take the batch as a whole,
    and let nobody read what lies before the start."""
    start, base = replica.log_start_offset, event.spans[0].base_offset
    empty = replica.with_log(
        epochs=EpochLineage(), log_start_offset=base, log_end_offset=base, durable_end_offset=base
    )
    began, effects = batches_received(
        empty, replace(event, log_start_offset=max(start, event.log_start_offset))
    )
    if began.log_end_offset == base:
        return fetch_on(replica)  # What came does not fit together.
    return began, (TruncateAndStartAt(base), *effects)


def is_lineage(replica: Replica, spans: tuple[Span, ...]) -> bool:
    """Whether the spans follow on one another and their epochs do not fall."""
    epoch = replica.epochs.latest_epoch
    end_offset = spans[0].base_offset
    for span in spans:
        if span.base_offset != end_offset or span.leader_epoch < epoch:
            return False
        end_offset, epoch = span.end_offset, span.leader_epoch
    return True


def fetch_refused(replica: Replica, event: FetchRefused) -> Step:
    """The leader refused. Only an offset out of range is for the follower to mend; the rest waits for news.

    Below the leader's log start: nothing here is of use, begin anew there. Beyond its end: its log and this
    one part somewhere, which the epochs will tell (KAFKA-7414: never fatal, never from zero).
    """
    if is_echo(replica, event.leader, event.leader_epoch):
        return replica, ()
    if event.refusal is not Refusal.OFFSET_OUT_OF_RANGE or replica.role is not Role.FETCHING:
        return replica, ()
    # An empty log that begins beyond the leader's end: records were lost that had been committed and deleted.
    is_beyond = not replica.epochs.entries and replica.decision.unclean_epoch > 0
    if replica.log_end_offset < event.log_start_offset or is_beyond:
        return begin_anew(replica, event.log_start_offset)
    if not replica.epochs.entries:
        return fetch_on(replica)
    return _ask(replica.with_role(Role.TRUNCATING))


def begin_anew(replica: Replica, offset: int) -> Step:
    """Throw everything away and begin at the leader's log start: what lies before was deleted there, and
    nothing from there on is the same here.

    The leader deletes only below its high watermark, so all below `offset` was committed: so is the new HW.
    """
    if is_unexplained(replica, offset):
        return diverge(replica, offset)
    if replica.role is Role.TRUNCATING:
        replica = replica.with_role(Role.FETCHING)
    restarted = replica.with_log(
        epochs=EpochLineage(),
        log_start_offset=offset,
        log_end_offset=offset,
        durable_end_offset=offset,
        high_watermark=offset,
    )
    fetching, effects = fetch_on(restarted)
    cut = TruncateAndStartAt(offset, lost_committed=offset < replica.high_watermark)
    return fetching, (cut, AdvanceHighWatermark(offset), *effects)


def _truncate(replica: Replica, offset: int) -> Step:
    """Cut the log back to `offset`; nothing to do where it ends there already and no empty epoch begins
    there."""
    assert 0 <= offset <= replica.log_end_offset
    if offset < replica.log_start_offset:
        # The leader's log ends before this one begins: only after an unclean election.
        restarted = replica.with_log(
            epochs=EpochLineage(),
            log_start_offset=offset,
            log_end_offset=offset,
            durable_end_offset=offset,
            high_watermark=offset,
        )
        return restarted, (TruncateAndStartAt(offset, lost_committed=True),)
    epochs = replica.epochs.truncate_to(offset)
    if offset == replica.log_end_offset and epochs is replica.epochs:
        return replica, ()
    cut = replica.with_log(
        epochs=epochs,
        log_end_offset=offset,
        durable_end_offset=min(replica.durable_end_offset, offset),
        high_watermark=min(replica.high_watermark, offset),
    )
    return cut, (TruncateTo(offset, offset < replica.high_watermark),)


def _ask(replica: Replica) -> Step:
    return replica, (open_question(replica),)


def open_question(replica: Replica) -> AskEpochEnd:
    """What a replica that is TRUNCATING has asked its leader. The shell asks it again where that failed."""
    assert replica.role is Role.TRUNCATING
    epoch, end_offset = replica.epochs.latest_epoch, replica.log_end_offset
    return AskEpochEnd(replica.leader, replica.leader_epoch, epoch, end_offset)


def fetch_on(replica: Replica) -> Step:
    """Fetch from the end of the log, or name that position once more."""
    assert replica.role is Role.FETCHING
    return replica, (StartFetching(replica.leader, replica.leader_epoch, replica.log_end_offset),)
