"""The speed limit of moves (KIP-73): /config/reassignment, which brokers get with their metadata.

One write at a time. The limit that requests ask for is kept until ZooKeeper holds it; the last one counts.
"""

from __future__ import annotations

from hightide_controller.core.effects import Effect, SendUpdateMetadata, StoreWrites
from hightide_controller.core.elections.waiting_requests import overloaded
from hightide_controller.core.events import StoredThrottle
from hightide_controller.core.state.cluster_state import ClusterState, ThrottleStoreInFlight, WaitingRequest
from hightide_controller.core.state.request_purposes import SetsThrottle
from hightide_controller.core.values.requests import ReassignmentThrottleRequested
from hightide_controller.core.writes import ThrottleWrite

__all__ = [
    "decide_throttle",
    "on_throttle_answered",
    "on_throttle_requested",
    "request_throttle",
    "take_throttle",
]


def on_throttle_requested(state: ClusterState, event: ReassignmentThrottleRequested) -> list[Effect]:
    """AlterReassignmentThrottle."""
    if refused := overloaded(state, event.request_id):
        return refused
    waiter = WaitingRequest(event.request_id, event.cause, SetsThrottle())
    state.waiters[event.request_id] = waiter
    request_throttle(state, waiter, event.throttle_bytes_per_s)
    return []


def request_throttle(state: ClusterState, waiter: WaitingRequest, throttle_bytes_per_s: int) -> None:
    """Ask for this speed limit on behalf of a waiting request, which is informed when ZooKeeper holds it."""
    assert throttle_bytes_per_s >= 0
    waiter.is_unwritten = True
    state.throttle_work.requested_changes[waiter.request_id] = throttle_bytes_per_s


def take_throttle(state: ClusterState, znode: StoredThrottle | None, cause: str) -> list[Effect]:
    """Take over the content of /config/reassignment, if it was read: brokers get it if it is new."""
    return [*_told(state, cause)] if znode is not None and _take_over(state, znode) else []


def _take_over(state: ClusterState, znode: StoredThrottle) -> bool:
    """Whether this differs from the limit that brokers know."""
    before_bytes_per_s = _bytes_per_s(state)
    state.throttle = znode
    state.throttle_work.is_waiting = False
    return znode.throttle_bytes_per_s != before_bytes_per_s


def decide_throttle(state: ClusterState) -> list[Effect]:
    """The next write, or the result that none is needed. Called at the end of each step."""
    work = state.throttle_work
    for request_id in [
        request_id for request_id in work.requested_changes if request_id not in state.waiters
    ]:
        # Its time is up.
        del work.requested_changes[request_id]
    if not work.requested_changes or any(
        isinstance(store, ThrottleStoreInFlight) for store in state.stores.values()
    ):
        return []
    wanted = list(work.requested_changes.values())[-1]
    cause = state.waiters[next(reversed(work.requested_changes))].cause
    if _bytes_per_s(state) == wanted:
        effects = _told(state, cause)
        for request_id in work.requested_changes:
            waiter = state.waiters[request_id]
            waiter.is_unwritten = False
            waiter.unacknowledged = {
                broker_id: effect.sequence for effect in effects for broker_id, _ in effect.brokers
            }
        work.requested_changes.clear()
        return [*effects]
    if work.is_waiting:
        return []
    write = ThrottleWrite(wanted, None if state.throttle is None else state.throttle.version)
    store_id = state.next_store_id
    state.next_store_id += 1
    state.stores[store_id] = ThrottleStoreInFlight(write)
    return [StoreWrites(store_id, state.controller_epoch_version, (write,), cause)]


def on_throttle_answered(
    state: ClusterState, store: ThrottleStoreInFlight, *, is_stored: bool
) -> list[Effect]:
    """Handle the outcome of the write. If it is unknown, ZooKeeper's watch or the next attempt settles it."""
    if not is_stored:
        state.throttle_work.is_waiting = True
        return []
    expected = store.write.expected_version
    if expected != (None if state.throttle is None else state.throttle.version):
        # It was read meanwhile, as this write or a later one has left it.
        return []
    written = StoredThrottle(store.write.throttle_bytes_per_s, 0 if expected is None else expected + 1)
    is_new = _take_over(state, written)
    if list(state.throttle_work.requested_changes.values())[-1:] == [written.throttle_bytes_per_s]:
        # `decide_throttle` sends it, for the requests that wait for it.
        return []
    return [*_told(state, "")] if is_new else []


def _told(state: ClusterState, cause: str) -> list[SendUpdateMetadata]:
    """Every UpdateMetadata carries the speed limit."""
    receivers = tuple((broker.broker_id, broker.broker_epoch) for broker in state.live_brokers())
    return [SendUpdateMetadata(receivers, state.take_sequence(), cause=cause)] if receivers else []


def _bytes_per_s(state: ClusterState) -> int:
    return 0 if state.throttle is None else state.throttle.throttle_bytes_per_s
