"""One shard of the groups in this process: feeds its core one event at a time, and performs the effects.

Duties: every effect is performed, in order, before the next event, and nothing is awaited in between. Every
store, read and look-up is answered by its outcome. A request is answered once. A request from one epoch is
not answered in another.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections import deque
from collections.abc import Callable, Coroutine
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.listeners import Listener, address_told, current_listener

from hightide_coordinator.contract import convert
from hightide_coordinator.core import effects as ef
from hightide_coordinator.core import events as ev
from hightide_coordinator.core.machine import new_state, next_deadline_ms, step
from hightide_coordinator.core.state.descriptions import QuestionRefused, not_active
from hightide_coordinator.core.state.group import Group, GroupState
from hightide_coordinator.core.values.limits import GroupLimits
from hightide_coordinator.core.values.member_id import made_member_id
from hightide_coordinator.core.values.refusals import Refusal
from hightide_coordinator.counters import Counters
from hightide_coordinator.offset_lookup import StartOffsets
from hightide_coordinator.pending_requests import Answer, PendingRequests, RequestEvent
from hightide_coordinator.streams.consumer_streams import ConsumerStream
from hightide_coordinator.streams.unread_streams import UnreadStreams
from hightide_coordinator.tracing.shard_traces import ShardTraces
from hightide_coordinator.zookeeper.candidacy import ShardTakeover
from hightide_coordinator.zookeeper.store import CoordinatorStore

__all__ = ["Shard", "ShardCallbacks"]

_log = logging.getLogger(__name__)

T = TypeVar("T")
A = TypeVar("A", bound=Answer)


@dataclass(frozen=True, slots=True)
class ShardCallbacks:
    """The callbacks of a shard to its process. All are called on the loop."""

    watch_topics: Callable[[int, ef.WatchTopics], None]
    look_for_pause: Callable[[], None]
    """Called before each event: if this process was paused, it deposes the shard first."""
    resigned: Callable[[int], None]
    """The core has resigned, because a write was fenced."""
    failed: Callable[[], None]
    """This process cannot go on."""


class Shard:
    """One shard of one process; belongs to the event loop's thread."""

    def __init__(
        self,
        shard: int,
        limits: GroupLimits,
        store: CoordinatorStore,
        start_offsets: StartOffsets,
        clock: Clock,
        traces: ShardTraces,
        request_timeout_ms: int,
        callbacks: ShardCallbacks,
    ) -> None:
        self.shard = shard
        self.state = new_state(limits)
        self.requests = PendingRequests(self.take, request_timeout_ms)
        self.counters = Counters()
        self.unread_streams = UnreadStreams(shard)
        self._failed_groups: dict[str, Group] = {}
        """Groups that were FAILED when they were last reported."""
        self._traces = traces
        self._store = store
        self._start_offsets = start_offsets
        self._clock = clock
        self._callbacks = callbacks
        self._loop = asyncio.get_running_loop()
        self._streams: dict[int, ConsumerStream] = {}
        """The streams that the core knows, by connection id."""
        self._registrations = 0
        """How many it has taken; the id of a new member has the number of its registration."""
        self._inbox: deque[ev.Event] = deque()
        self._is_taking = False
        self._is_closed = False
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms = 0
        self._tasks: set[asyncio.Task[None]] = set()
        self._life = 0
        """Counts elections and depositions: see `_feed_back`."""

    async def close(self) -> None:
        """Take no more events, and wait for none."""
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self.requests.refuse_all(_shutting_down)
        self._traces.resigned()

    def count_failed_groups(self) -> int:
        """How many groups are FAILED now; called on any thread."""
        return sum(group.state is GroupState.FAILED for group in list(self._failed_groups.values()))

    # ---- events in

    def take(self, event: ev.Event) -> None:
        """Feed the core an event, now, or after the current one."""
        if self._is_closed:
            return
        if not isinstance(event, ev.Elected | ev.Deposed | ev.CoordinatorSeen):
            self._callbacks.look_for_pause()
        self._inbox.append(event)
        if self._is_taking:
            return
        self._is_taking = True
        try:
            while self._inbox:
                self._take(self._inbox.popleft())
        except Exception:  # noqa: BLE001 - the top of everything that happens to a core
            # A bug. The state may be half-changed, so it is not used any more. main ends the process, and a
            # standby takes over and reads everything anew.
            _log.exception("shard %d: an event could not be handled", self.shard)
            self._is_closed = True
            self._callbacks.failed()
        finally:
            self._is_taking = False
        self._arm()

    def _take(self, event: ev.Event) -> None:
        if isinstance(event, ev.Elected | ev.Deposed):
            self._life += 1
        for effect in step(self.state, event, self._clock.monotonic_ms()):
            self._perform(effect, event)
        self.unread_streams.log()
        self._traces.settle(self.state)

    def elected(self, elected: ev.Elected, takeover: ShardTakeover) -> None:
        """This process coordinates the shard from now on."""
        self.take(elected)
        self._traces.taken_over(takeover, self.state)

    def _arm(self) -> None:
        """Set the timer for the core's next deadline. A timer that is too early costs less than setting it
        anew."""
        due_ms = next_deadline_ms(self.state)
        if due_ms is None or self._is_closed or (self._timer is not None and self._timer_ms <= due_ms):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer_ms = due_ms
        delay_ms = max(due_ms - self._clock.monotonic_ms(), 0)
        self._timer = self._loop.call_later(delay_ms / 1000, self._wake)

    def _wake(self) -> None:
        self._timer = None
        due_ms = next_deadline_ms(self.state)
        if due_ms is not None and due_ms <= self._clock.monotonic_ms():
            self.take(ev.Ticked())
        else:
            self._arm()

    # ---- consumers

    def register(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> None:
        """Handle the first message of a stream. Raises ServiceError."""
        self.require_active()
        registration = convert.registration_in(message, stream.peer)
        self._streams[stream.connection_id] = stream
        self._registrations += 1
        epoch, secret = self.state.coordinator_epoch, uuid.uuid4().hex
        new_member_id = made_member_id(epoch, self._registrations, secret)
        new_consumer_id = f"consumer-{secrets.token_hex(6)}"
        self.take(ev.ConsumerRegistered(stream.connection_id, registration, new_member_id, new_consumer_id))

    def answered(self, stream: ConsumerStream, message: pb.RegisterConsumerRequest) -> None:
        """Handle a later message of a stream. Raises ServiceError."""
        event = convert.answer_in(message, stream.connection_id)
        if isinstance(event, ev.ConsumerLeft):
            stream.has_said_goodbye = True
        self.take(event)

    def lost(self, stream: ConsumerStream) -> None:
        """Handle a stream that ended without an order of the core."""
        if self._streams.pop(stream.connection_id, None) is not None:
            self.take(ev.ConnectionLost(stream.connection_id))

    def _send(self, connection_id: int, message: bytes) -> None:
        stream = self._streams.get(connection_id)
        if stream is None or stream.send(message):
            return
        self.unread_streams.end(stream)
        self.lost(stream)

    def _close(self, effect: ef.CloseConnection) -> None:
        stream = self._streams.pop(effect.connection_id, None)
        if stream is None:
            return
        if effect.refusal is None:
            stream.end()
        else:
            refused = QuestionRefused(effect.refusal, effect.message, effect.metadata)
            stream.end(self.error_of(refused, stream.listener))

    # ---- requests

    def require_active(self) -> None:
        """Raise NOT_COORDINATOR, with the active coordinator, unless this process coordinates the shard."""
        if (refused := not_active(self.state)) is not None:
            raise self.error_of(refused)
        if self._is_closed:
            raise _shutting_down()

    async def ask(self, event: RequestEvent, kind: type[A]) -> A:
        """Feed a request to the core and wait for its answer of this kind. Raises ServiceError."""
        self.require_active()
        return await self.requests.ask(event, kind)

    def told(self, answer: T | QuestionRefused) -> T:
        """The result of a description. Raises ServiceError if it was refused."""
        if isinstance(answer, QuestionRefused):
            raise self.error_of(answer)
        return answer

    def error_of(self, refused: QuestionRefused, listener: Listener | None = None) -> ServiceError:
        """The error for a refusal, for a caller that came in through this listener, or through the current
        one."""
        message, metadata = refused.message, refused.metadata
        if refused.refusal is Refusal.NOT_COORDINATOR:
            # A caller that knows only the number of shards learns from this which one it was.
            metadata = {**metadata, "shard": str(self.shard)}
            elsewhere, inside = self.state.active_elsewhere, metadata.get("coordinator_address")
            is_outside = (listener or current_listener()) is Listener.EXTERNAL
            if elsewhere is not None and is_outside and not elsewhere.external_host:
                # There is none, or brokers named it while ZooKeeper, which knows, could not be reached.
                metadata.pop("coordinator_address", None)
                message = (
                    f"this coordinator is not the active one; coordinator {elsewhere.id} is; ask any "
                    "broker for its address"
                )
            elif elsewhere is not None and inside is not None:
                metadata["coordinator_address"] = told = str(address_told(elsewhere, listener))
                message = message.replace(inside, told)
        return convert.error_of(refused.refusal, message, metadata)

    # ---- effects out

    def _perform(self, effect: ef.Effect, event: ev.Event) -> None:
        match effect:
            case ef.SendPings():
                template = convert.PingTemplate(effect.coordinator_epoch, effect.generation)
                for connection_id, sequence, retry_count in effect.connections:
                    self._send(connection_id, template.ping(sequence, retry_count))
            case ef.SendRegistered():
                self._send(effect.connection_id, convert.registered_out(effect))
            case ef.SendStopFetcher():
                traceparent = self._traces.rebalances.stopping(self._group_of(effect.connection_id))
                self._send(effect.connection_id, convert.stop_fetcher_out(effect, traceparent))
            case ef.SendStartFetcher():
                if (stream := self._streams.get(effect.connection_id)) is not None:
                    traceparent = self._traces.rebalances.starting(self._group_of(effect.connection_id))
                    order = convert.start_fetcher_out(effect, stream.listener, traceparent)
                    self._send(effect.connection_id, order)
            case ef.CloseConnection():
                self._close(effect)
            case ef.StoreGroup():
                if effect.owners:
                    self._traces.rebalances.storing(effect.group, effect.store_id)
                self._feed_back(self._store.store_group(effect))
            case ef.ReadGroup():
                self._feed_back(self._store.read_group(effect.group))
            case ef.LookUpOffsets():
                self._feed_back(self._start_offsets.look_up(effect))
            case ef.WatchTopics():
                self._callbacks.watch_topics(self.shard, effect)
            case ef.AnswerCommit() | ef.AnswerReset() | ef.AnswerDelete() | ef.AnswerDeleteOffsets():
                self.requests.answer(effect)
            case ef.RefuseRequest():
                refused = QuestionRefused(effect.refusal, effect.message, effect.metadata)
                self.requests.refuse(effect.request_id, partial(self.error_of, refused))
            case ef.Resign():
                self._resign(by_itself=not isinstance(event, ev.Deposed))
            case ef.LogSentence():
                self._report(effect)

    def _group_of(self, connection_id: int) -> str:
        member = self.state.connections.get(connection_id)
        return "" if member is None else member.group

    def _report(self, effect: ef.LogSentence) -> None:
        _log.log(logging.WARNING if effect.is_warning else logging.INFO, "%s", effect.message)
        if begun := self.state.groups.get(effect.begun_group):
            self._traces.begun(begun)
        group = self.state.groups.get(effect.rebalanced_group)
        if group is None:
            return
        self.counters.rebalanced(group)
        if group.state is GroupState.FAILED:
            self._failed_groups[group.name] = group
        else:
            self._failed_groups.pop(group.name, None)
        self._traces.rebalanced(group)

    def _resign(self, *, by_itself: bool) -> None:
        if (refused := not_active(self.state)) is None:
            refused = QuestionRefused(
                Refusal.NOT_COORDINATOR, "this coordinator is not the active one any more", {}
            )
        self._traces.resigned()
        self._failed_groups.clear()
        self.requests.refuse_all(partial(self.error_of, refused))
        streams, self._streams = self._streams, {}
        for stream in streams.values():
            stream.end(self.error_of(refused, stream.listener), at_once=True)
        if by_itself:
            self._callbacks.resigned(self.shard)

    def _feed_back(self, work: Coroutine[Any, Any, ev.Event]) -> None:
        """Feed the outcome of an effect to the core, unless its epoch is over: the core knows nothing of it
        then, and numbers begin anew in the next epoch."""
        life = self._life

        async def run() -> None:
            try:
                event = await work
            except Exception:  # noqa: BLE001 - the top of a task
                # The core waits for an outcome that will not come: as in `take`, a standby has to take over.
                _log.exception("shard %d: a task failed", self.shard)
                self._is_closed = True
                self._callbacks.failed()
                return
            if life == self._life:
                self.take(event)

        task = self._loop.create_task(run())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)


def _shutting_down() -> ServiceError:
    return ServiceError(
        ErrorCode.ERROR_CODE_SHUTTING_DOWN,
        "this coordinator is shutting down; another one takes over; ask any broker which one",
    )
