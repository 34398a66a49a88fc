"""The start of a log, and its moves: by retention, and by operators who delete records (KIP-107).

Rules of this file: the log start never falls while a replica lives, unless the log begins anew after an
unclean election (`follower.py`). It never passes its own high watermark: uncommitted records must not be
deleted. It may be inside a batch, which then stays in the log as a whole; readers get nothing below the
start.

Theory of operation. A leader moves its start on request. Followers receive it with fetched records, and move
their start as far as their own high watermark. So the start of a new leader is the last one that it has
heard. The records in between are still committed: until a follower has heard of it, a deletion only promises
to free disk space.
"""

from __future__ import annotations

from hightide_broker.core.effects import Effects, MoveLogStart, Refuse
from hightide_broker.core.events import DeleteRecordsArrived, RecordsExpired
from hightide_broker.core.reads import latest_offset
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import Replica

ALL_COMMITTED = -1
"""In a DeleteRecordsArrived: everything below the high watermark."""


def log_start_after(replica: Replica, before_offset: int) -> int | Refusal:
    """The start of a leader's log after such a request, or the reason why it is refused.

    A new leader does not know its high watermark at first. An offset that its predecessor has committed is no
    error then, but the request has to wait (KIP-207).
    """
    latest = latest_offset(replica)
    if before_offset == ALL_COMMITTED:
        return latest if isinstance(latest, Refusal) else max(latest, replica.log_start_offset)
    if isinstance(latest, Refusal):
        is_certain = latest is Refusal.OFFSET_NOT_AVAILABLE and before_offset <= replica.high_watermark
        if not is_certain:
            return latest
    elif before_offset > latest:
        return Refusal.OFFSET_OUT_OF_RANGE
    return max(before_offset, replica.log_start_offset)


def delete_records(replica: Replica, event: DeleteRecordsArrived) -> tuple[Replica, Effects]:
    """Delete the records before an offset. If the log begins there or later already, nothing moves."""
    start = log_start_after(replica, event.before_offset)
    if isinstance(start, Refusal):
        return replica, (Refuse(start),)
    return move_log_start(replica, start)


def follow_log_start(replica: Replica, leaders_log_start: int) -> tuple[Replica, Effects]:
    """Follow the leader's log start, as far as this follower knows all earlier records to be committed."""
    return move_log_start(replica, min(leaders_log_start, replica.high_watermark))


def move_log_start(replica: Replica, offset: int) -> tuple[Replica, Effects]:
    """Begin at `offset`, unless the log begins there or later already."""
    assert offset <= replica.high_watermark, "what is not committed stays"
    if offset <= replica.log_start_offset:
        return replica, ()
    epochs = replica.epochs.begin_at(offset)
    return replica.with_log(epochs=epochs, log_start_offset=offset), (MoveLogStart(offset),)


def records_expired(replica: Replica, event: RecordsExpired) -> tuple[Replica, Effects]:
    """Begin where retention has found that the log may, unless an unclean election has lowered the high
    watermark since. The caller moves the start of the log."""
    if not replica.log_start_offset < event.log_start_offset <= replica.high_watermark:
        return replica, ()
    epochs = replica.epochs.begin_at(event.log_start_offset)
    return replica.with_log(epochs=epochs, log_start_offset=event.log_start_offset), ()
