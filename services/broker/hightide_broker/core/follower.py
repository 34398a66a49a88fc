"""The follower's side of replication (V3 becomeFollower and section G).

Rules of this file: a follower acts on an answer only if it comes from the leader that it follows, and was
asked for in the epoch in which it follows. Any other answer is out of date and is dropped. So is an answer
about the end of an epoch if this log has changed since the question.

Theory of operation (KIP-101, KIP-279; Kip320, rules 1 and 2). Two logs that have a record of the same epoch
at the same offset are equal up to there, because one leader wrote that epoch. So the follower asks where its
newest epoch ended in the leader's log, truncates what is beyond, and asks again while the leader does not
know the epoch that remains. Only then does it fetch. The high watermark plays no part in this.

But only a replica with all committed records is elected, except in an unclean election, which each decision
records (`unclean_epoch`). So a truncation below the follower's own high watermark, without such an election
as the reason, shows that records are lost at the leader, for whatever reason. The follower then stops, with
what may be the last copy.
"""

from __future__ import annotations

from msgspec.structs import replace

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
from hightide_broker.core.events import BatchesReceived, BatchSpan, EpochEndReceived, FetchRefused
from hightide_broker.core.high_watermark import followers_high_watermark
from hightide_broker.core.lineage import NO_EPOCH, EpochLineage
from hightide_broker.core.log_start import follow_log_start
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Decision, Replica, Role, enter

Step = tuple[Replica, Effects]


def become_follower_and_truncate(replica: Replica, decision: Decision) -> Step:
    """Follow another leader, or the same one in a new epoch (V3 becomeFollower, BecomeFollowerAndTruncate).

    An empty log is fetched into at once, since it cannot diverge from the leader's. There is one exception:
    where it lacks records that were deleted before an unclean election, the leader may have others. Then it
    asks where the leader's log begins.
    """
    assert decision.leader != replica.settings.broker_id
    effects: Effects = (AbandonWaiters(Refusal.NOT_LEADER),) if replica.is_leader else ()
    if not replica.epochs.entries:
        assert replica.log_end_offset == replica.log_start_offset, "every record has an epoch"
        if not _may_be_of_another_past(replica, decision):
            following, fetching = fetch_on(enter(replica, Role.FETCHING, decision))
            return following, (*effects, *fetching)
    following, asking = _ask(enter(replica, Role.TRUNCATING, decision))
    return following, (*effects, *asking)


def _may_be_of_another_past(replica: Replica, decision: Decision) -> bool:
    """Whether records were deleted from an empty log, and an unclean election may have come after that. None
    has if this life has fetched or led since, nor if others count on this replica: a member of the ISR has
    fetched from a leader that was elected since."""
    me = replica.settings.broker_id
    counts = me in decision.isr or me in decision.eligible
    return replica.log_start_offset > 0 and decision.unclean_epoch > replica.past_epoch and not counts


def is_echo(replica: Replica, leader: int, leader_epoch: int) -> bool:
    """Whether an answer belongs to a leader or an epoch that this replica does not follow (any more)."""
    if not replica.is_follower or leader != replica.leader:
        return True
    return leader_epoch != replica.leader_epoch


def epoch_end_received(replica: Replica, event: EpochEndReceived) -> Step:
    """Handle the leader's answer about the end of an epoch: truncate there, and fetch or ask again
    (KIP-279)."""
    asked = event.question
    if replica.role is not Role.TRUNCATING or is_echo(replica, asked.leader, asked.leader_epoch):
        return replica, ()
    if (asked.epoch, asked.log_end_offset) != (replica.epochs.latest_epoch, replica.log_end_offset):
        return replica, ()  # Its subject is truncated already; it says nothing about what was fetched since.
    if event.epoch > asked.epoch:
        return replica, ()  # It answers no open question.
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
    """Where to begin anew, if nothing of this log is in the leader's. None if they may share something, or a
    truncation is enough.

    Records before the own log start are the same in both logs, because they were committed, unless an unclean
    election came after them. Then the leader may have other records there, and a replica that may lead needs
    them: ask for all. The leader says where its log begins if that is later.
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
    """Whether a truncation there would remove committed records without an unclean election as the reason:
    there was none, or this log continues after it, and so was truncated for it already."""
    return offset < replica.high_watermark and replica.decision.unclean_epoch <= replica.epochs.latest_epoch


def diverge(replica: Replica, offset: int) -> Step:
    """Stop following, and truncate nothing. The next decision about the partition lets it ask again."""
    return enter(replica, Role.DIVERGED, replica.decision), (StopFetching(), ReportDivergence(offset))


def parting_point(replica: Replica, event: EpochEndReceived) -> tuple[bool, int]:
    """Where this log diverges from the leader's as far as the answer says, and whether that is certain."""
    if event.epoch == NO_EPOCH:
        # The leader's log begins with newer epochs than any here: nothing of this log is in it.
        return True, event.end_offset
    mine = replica.epochs.end_offset_for(event.epoch, replica.log_start_offset, replica.log_end_offset)
    if mine.epoch == event.epoch:
        return True, min(mine.end_offset, event.end_offset)
    # This log has no record of that epoch. The leader does not have its records of newer ones; ask about the
    # rest.
    assert mine.epoch < event.epoch
    return False, mine.end_offset


def batches_received(replica: Replica, event: BatchesReceived) -> Step:
    """Handle a fetch's answer: append, and take min(leader's HW, own end) as high watermark (V3 G).

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


def _holds(span: BatchSpan, offset: int) -> bool:
    return span.base_offset < offset < span.end_offset


def _begin_inside(replica: Replica, event: BatchesReceived) -> Step:
    """Begin an empty log inside the first batch that comes, as the leader's log does: append the whole batch,
    and serve no record before the start."""
    start, base = replica.log_start_offset, event.spans[0].base_offset
    empty = replica.with_log(
        epochs=EpochLineage(), log_start_offset=base, log_end_offset=base, durable_end_offset=0
    )
    began, effects = batches_received(
        empty, replace(event, log_start_offset=max(start, event.log_start_offset))
    )
    if began.log_end_offset == base:
        return fetch_on(replica)  # The batches do not fit together.
    return began, (TruncateAndStartAt(base), *effects)


def is_lineage(replica: Replica, spans: tuple[BatchSpan, ...]) -> bool:
    """Whether the spans follow one another and their epochs do not fall."""
    epoch = replica.epochs.latest_epoch
    end_offset = spans[0].base_offset
    for span in spans:
        if span.base_offset != end_offset or span.leader_epoch < epoch:
            return False
        end_offset, epoch = span.end_offset, span.leader_epoch
    return True


def fetch_refused(replica: Replica, event: FetchRefused) -> Step:
    """Handle a refused fetch. The follower itself corrects only an offset out of range; otherwise it waits
    for news.

    Below the leader's log start, nothing here is of use: begin anew there. Beyond its end, the two logs
    diverge somewhere, which the epochs will show (KAFKA-7414: never fatal, never from zero).
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
    """Delete everything and begin at the leader's log start: earlier records were deleted there, and nothing
    from there on is the same here.

    The leader deletes only below its high watermark, so everything below `offset` was committed: that is the
    new HW. Nothing of the new log is on disk yet, its start neither: a power cut could take it.
    """
    if is_unexplained(replica, offset):
        return diverge(replica, offset)
    if replica.role is Role.TRUNCATING:
        replica = replica.with_role(Role.FETCHING)
    restarted = replica.with_log(
        epochs=EpochLineage(),
        log_start_offset=offset,
        log_end_offset=offset,
        durable_end_offset=0,
        high_watermark=offset,
    )
    fetching, effects = fetch_on(restarted)
    cut = TruncateAndStartAt(offset, lost_committed=offset < replica.high_watermark)
    return fetching, (cut, AdvanceHighWatermark(offset), *effects)


def _truncate(replica: Replica, offset: int) -> Step:
    """Truncate the log to `offset`; nothing to do if it ends there already and no empty epoch begins
    there."""
    assert 0 <= offset <= replica.log_end_offset
    if offset < replica.log_start_offset:
        # The leader's log ends before this one begins: only after an unclean election.
        restarted = replica.with_log(
            epochs=EpochLineage(),
            log_start_offset=offset,
            log_end_offset=offset,
            durable_end_offset=0,
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
    """The question of a TRUNCATING replica to its leader. The shell repeats it after a failure."""
    assert replica.role is Role.TRUNCATING
    epoch, end_offset = replica.epochs.latest_epoch, replica.log_end_offset
    return AskEpochEnd(replica.leader, replica.leader_epoch, epoch, end_offset)


def fetch_on(replica: Replica) -> Step:
    """Fetch from the end of the log, or send that position once more."""
    assert replica.role is Role.FETCHING
    return replica, (StartFetching(replica.leader, replica.leader_epoch, replica.log_end_offset),)
