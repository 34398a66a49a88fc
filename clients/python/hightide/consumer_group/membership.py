"""A consumer's membership in its group: how it finds the coordinator, registers, answers, comes back, leaves.

Rules of this file: no clock, no I/O, no threads; time comes in as `now_ms`, chance as a seeded Random. From
time, messages and the user's calls, the core decides what to send on the stream and how the assignment
changes. `GroupCore` joins it to the `ConsumerCore`, and the shells perform the decisions.

Theory of operation (consumer coordinator §7, §8, §10, §11). One stream to the coordinator of the group's
shard carries the registration, then orders and their answers. Orders of a lower coordinator epoch than the
highest that was seen are not obeyed (C5). A stream that broke is replaced at once, by a registration with the
member id and the owned partitions. Meanwhile the consumer goes on reading for a third of its session timeout;
then it returns no records until it is registered again (§8.5). If an open stream carries no message for a
whole session timeout, the consumer takes the coordinator for dead (§10). A process that was itself paused for
a third of the session timeout may have been declared dead meanwhile: it obeys no order that waited for it,
and registers again before it returns more records. It keeps the partitions that the coordinator confirms in
its answer; all others are lost. A consumer that is closed sends a goodbye with its final positions, and waits
until the stream ends with OK: they are durable then (§11, two steps).
"""

from collections import deque
from random import Random
from typing import Any, Final

from hightide.calls.backoff import Backoff
from hightide.calls.call import Call, Method, StreamCall, StreamEnded
from hightide.calls.notice import Level, Notice
from hightide.cluster.leader_waits import SAMPLE_MAX, GroupOrder
from hightide.cluster.metadata import MetadataSeeker
from hightide.consumer_group.membership_state import VALID_PREDECESSORS, MembershipState
from hightide.consumer_group.ownership import Ownership, StopOrder
from hightide.consumer_group.settings import GroupSettings
from hightide.errors import (
    AddressUnreachableError,
    AnswerOutOfTurnError,
    ConsumerIdTakenError,
    CoordinatorUnavailableError,
    HightideError,
    InvalidArgumentError,
    InvalidRequestError,
    NotAuthenticatedError,
    NotCoordinatorError,
    OverloadedError,
    SessionTimedOutError,
    UnexpectedAnswerError,
    UnknownMemberError,
)
from hightide.records import TopicPartition
from hightide.v1.coordinator_service_pb2 import (
    ConsumerGoodbye,
    ConsumerRegistered,
    PingAnswer,
    RegisterConsumerRequest,
    RegisterConsumerResponse,
    StartFetcherAnswer,
    StopFetcherAnswer,
)

# Between attempts to register, from the first to the longest; each is shortened by up to a half at random, so
# that the consumers of a coordinator that died do not all come at once.
RETRY: Final = Backoff(initial_ms=20, maximum_ms=500, jitter=0.5)
OVERLOADED: Final = Backoff(initial_ms=1_000, maximum_ms=1_000, jitter=0.5)
# A coordinator that could not be reached is not tried again for this long, even if brokers still name it.
REFUSAL_REST_MS: Final = 300
# A membership that lasted this long does not count as a failed attempt.
STEADY_MS: Final = 1_000
# How long an answer to a registration is waited for, at least.
REGISTRATION_TIMEOUT_MS: Final = 5_000
# No machine promises to run a thread more often than this, whatever the session timeout.
THIRD_LEAST_MS: Final = 100
# How long a goodbye may take.
LEAVE_TIMEOUT_MS: Final = 5_000


RegisterCall = StreamCall[RegisterConsumerResponse]


class Membership:
    """The membership of one consumer in a group. The user may change what it subscribes to."""

    def __init__(
        self,
        settings: GroupSettings,
        ownership: Ownership,
        seeker: MetadataSeeker,
        random: Random,
        notices: deque[Notice],
    ) -> None:
        self.settings = settings
        self.ownership = ownership
        self.state = MembershipState.SEEKING if settings.is_subscribed else MembershipState.OUTSIDE
        self.member_id = ""
        self.consumer_id = settings.consumer_id
        self.coordinator_epoch = 0
        self.generation = 0
        self.coordinator_address: str | None = None
        self.cancelled: list[Call[Any]] = []
        self.wake_at_ms: float | None = None
        self._seeker = seeker
        self._random = random
        self._notices = notices
        self._call: RegisterCall | None = None
        self._named: str | None = None
        self._unreachable: tuple[str, float] | None = None
        self._answers_needed = seeker.answer_count + 1
        self._retry_at_ms = 0.0
        self._attempts = 0
        self._registered_ms = 0.0
        self._last_error: HightideError | None = None
        self._refused_with: HightideError | None = None
        self._began_ms: float | None = None
        self._heard_ms = 0.0
        self._ticked_ms = 0.0
        self._third_ms = max(THIRD_LEAST_MS, settings.session_timeout_ms / 3)
        self._away_since_ms: float | None = None
        self._was_silent = False
        self._answer_timeout_ms = 2 * settings.session_timeout_ms / 3
        self.ping_interval_ms = settings.session_timeout_ms / 3
        self._taken_until_ms: float | None = None
        self._is_leaving = False
        self._leave_by_ms = 0.0
        self.is_traced = False
        self.facts: list[GroupOrder] = []
        self._is_outdated = False
        """Whether the registration under way is of an earlier subscription, or from before a pause: after its
        answer, the member registers again."""
        if settings.is_subscribed:
            seeker.want()

    def _become(self, state: MembershipState) -> None:
        assert self.state in VALID_PREDECESSORS[state], f"{self.state} is not followed by {state}"
        self.state = state

    # -- for the user's side
    # ----------------------------------------------------------------------------------

    def is_suspended(self, now_ms: float) -> bool:
        """Whether no records may be returned, because others may own by now what this consumer owned."""
        if self.state is MembershipState.MEMBER:
            silent_ms, still_ms = now_ms - self._heard_ms, now_ms - self._ticked_ms
            return silent_ms > self.settings.session_timeout_ms or still_ms > self._third_ms
        if self.state is not MembershipState.SEEKING and self.state is not MembershipState.REGISTERING:
            return True
        away = self._away_since_ms
        return self._was_silent or (away is not None and now_ms - away > self._third_ms)

    def raise_errors(self, now_ms: float) -> None:
        """Raise the coordinator's refusal of this consumer, or that none was found or no broker answered
        within the budget."""
        if self._refused_with is not None:
            raise self._refused_with
        if self.state is MembershipState.OUTSIDE:
            raise InvalidArgumentError(
                f"this consumer of group {self.settings.group} subscribes to nothing; call subscribe() first"
            )
        since = self._away_since_ms if self._away_since_ms is not None else self._began_ms
        if self.state is MembershipState.MEMBER or since is None:
            return
        if now_ms - since >= self.settings.unavailable_timeout_ms:
            if self._last_error is None and self._seeker.failing_since_ms is not None:
                raise self._seeker.unavailable(self.settings.unavailable_timeout_ms)
            last = (
                f"the last answer was: {self._last_error}"
                if self._last_error is not None
                else ("the brokers know of none")
            )
            raise CoordinatorUnavailableError(
                f"no coordinator of group {self.settings.group} let consumer "
                f"{self.consumer_id or '(new)'} register within "
                f"{self.settings.unavailable_timeout_ms / 1000:g} s; {last}",
                address=self.coordinator_address,
            )

    def subscribe(self, settings: GroupSettings, now_ms: float) -> None:
        """Subscribe to what these settings say, and to nothing else. A member registers again under its
        member id: it keeps the partitions that stay its own. Whoever left, or was refused, begins anew."""
        assert self.state is not MembershipState.LEAVING, "the shell waits until it has left"
        self.settings = settings
        match self.state:
            case MembershipState.OUTSIDE | MembershipState.REFUSED:
                if self.state is MembershipState.OUTSIDE:
                    self.member_id, self.consumer_id = "", settings.consumer_id
                self._is_leaving = self._was_silent = False
                self._refused_with = self._last_error = self._taken_until_ms = None
                self._began_ms = self._away_since_ms = None
                self._become(MembershipState.SEEKING)
                self._retry_at_ms, self._attempts = now_ms, 0
                self._answers_needed = self._seeker.answer_count + 1
                self._seeker.want()
            case MembershipState.REGISTERING:
                # The answer brings the member id. A member of which it is not known would stay for a session
                # timeout.
                self._is_outdated = True
            case MembershipState.MEMBER:
                self._register_again(now_ms)
            case MembershipState.SEEKING:
                pass  # The next registration says it.

    def _register_again(self, now_ms: float) -> None:
        """Tell the same coordinator what this member subscribes to now."""
        assert self._call is not None, "there is a stream"
        self.cancelled.append(self._call)
        self._call = None
        self._away_since_ms = now_ms
        self.ownership.connection_lost()
        self._become(MembershipState.SEEKING)
        self._named, self._retry_at_ms = self.coordinator_address, now_ms

    def left(self) -> None:
        """Note that the user waits no longer for the goodbye. Called after `leave`, once it is said or the
        time is up."""
        if self.state not in (MembershipState.OUTSIDE, MembershipState.REFUSED):
            self._give_up_leaving()

    def leave(self, now_ms: float) -> None:
        """Leave the group with the final positions. Called once, after the user's callbacks have run."""
        if self.state is MembershipState.OUTSIDE:
            return
        self._is_leaving = True
        self._leave_by_ms = now_ms + LEAVE_TIMEOUT_MS
        self.ownership.stops.clear()
        if self._call is not None:
            self._say_goodbye()
        elif self.state is MembershipState.SEEKING and self._has_unsaid():
            self._retry_at_ms = now_ms
        else:
            self._become(MembershipState.OUTSIDE)

    def _has_unsaid(self) -> bool:
        """Whether positions would be lost that only a coordinator can write."""
        return self.settings.auto_commit and bool(self.member_id) and bool(self.ownership.owned)

    def _say_goodbye(self) -> None:
        positions = self.ownership.positions(self.ownership.owned) if self.settings.auto_commit else []
        self._send(RegisterConsumerRequest(goodbye=ConsumerGoodbye(positions=positions)))
        self._become(MembershipState.LEAVING)

    # -- what to do now --------------------------------------------------------------------------------------

    def poll(self, now_ms: float) -> list[Call[Any]]:
        """The calls to make now. Sets `wake_at_ms`: when to ask again if nothing else happens."""
        self.wake_at_ms = None
        if self._began_ms is None:
            self._began_ms = now_ms
        if self.state in (MembershipState.OUTSIDE, MembershipState.REFUSED):
            return []
        self._watch_own_pauses(now_ms)
        self._watch_silence(now_ms)
        if self._is_leaving and now_ms >= self._leave_by_ms:
            self._give_up_leaving()
            return []
        if self.state is MembershipState.MEMBER:
            self._answer_stops(now_ms)
            self._wake_by(self._heard_ms + self.settings.session_timeout_ms + 1)
        elif self.is_suspended(now_ms):
            self.ownership.interrupt()
        elif self._away_since_ms is not None:
            self._wake_by(self._away_since_ms + self._third_ms + 1)
        if self._is_leaving:
            self._wake_by(self._leave_by_ms)
        return self._seek(now_ms) if self.state is MembershipState.SEEKING else []

    def _wake_by(self, at_ms: float) -> None:
        if self.wake_at_ms is None or at_ms < self.wake_at_ms:
            self.wake_at_ms = at_ms

    def _seek(self, now_ms: float) -> list[Call[Any]]:
        """Register with the coordinator as soon as it is known and the pause is over."""
        if now_ms < self._retry_at_ms:
            self._wake_by(self._retry_at_ms)
            return []
        address, self._named = self._named, None
        is_named = address is not None
        if address is None:
            if self._seeker.answer_count < self._answers_needed:
                return []
            address = self._seeker.cluster.coordinator_of(self.settings.group)
        if address is None or (not is_named and self._has_just_refused(address, now_ms)):
            self._try_later(now_ms)
            return []
        self.coordinator_address = address
        self._heard_ms = now_ms
        self._call = self._registration(address)
        self._become(MembershipState.REGISTERING)
        self._wake_by(now_ms + self._registration_timeout_ms())
        return [self._call]

    def _has_just_refused(self, address: str, now_ms: float) -> bool:
        """Whether the address could not be reached a moment ago: brokers name a dead coordinator until there
        is another one."""
        if self._unreachable is None or self._unreachable[0] != address:
            return False
        return now_ms - self._unreachable[1] < REFUSAL_REST_MS

    def _registration(self, address: str) -> RegisterCall:
        self._is_outdated = False
        registration = self.settings.registration()
        registration.consumer_id = self.consumer_id
        registration.member_id = self.member_id
        registration.owned.extend(self.ownership.claimed())
        request = RegisterConsumerRequest(coordinator_epoch=self.coordinator_epoch, registration=registration)
        return StreamCall(
            address,
            Method.REGISTER_CONSUMER,
            self._registration_timeout_ms(),
            request,
            RegisterConsumerResponse,
        )

    def _registration_timeout_ms(self) -> int:
        return max(REGISTRATION_TIMEOUT_MS, self.settings.session_timeout_ms)

    def _watch_own_pauses(self, now_ms: float) -> None:
        """Register again if this process was paused: it cannot know what happened meanwhile, and the orders
        that wait on the stream are old (§8.5, soft failure)."""
        still_ms, self._ticked_ms = now_ms - self._ticked_ms, now_ms
        if self._call is None or self.state is MembershipState.LEAVING:
            return
        if still_ms > self._third_ms:
            self._was_silent = True
            self.ownership.interrupt()
            if self.state is MembershipState.REGISTERING and not self.member_id:
                # It has nothing that others could own by now. The answer brings the member id: a member of
                # which it is not known would get partitions, and nobody would read them.
                self._is_outdated = True
                return
            self._abandon(now_ms, f"is asked anew: this process was paused for {still_ms / 1000:.1f} s")
        else:
            self._wake_by(now_ms + self._third_ms / 2)

    def _watch_silence(self, now_ms: float) -> None:
        """Leave a coordinator that was silent for the session timeout: it is dead, or takes this consumer for
        dead (§10)."""
        silent_ms = now_ms - self._heard_ms
        if self.state is MembershipState.MEMBER and silent_ms > self.settings.session_timeout_ms:
            self._was_silent = True
            self.ownership.interrupt()
            self._abandon(now_ms, f"was silent for {silent_ms / 1000:.1f} s")
        elif self.state is MembershipState.REGISTERING:
            if silent_ms > self._registration_timeout_ms():
                self._abandon(now_ms, "did not answer the registration")
            else:
                self._wake_by(self._heard_ms + self._registration_timeout_ms() + 1)

    def _abandon(self, now_ms: float, why: str) -> None:
        """End the stream from this side, and look up the coordinator again."""
        assert self._call is not None, "there is a stream"
        self._note(Level.WARNING, f"the coordinator at {self._call.address} {why}")
        self.cancelled.append(self._call)
        self._disconnected(CoordinatorUnavailableError(f"the coordinator {why}"), now_ms)

    def _note(self, level: Level, text: str) -> None:
        who = f"group {self.settings.group}, consumer {self.consumer_id or '(new)'}"
        self._notices.append(Notice("hightide.consumer", level, f"{who}: {text}"))

    def _give_up_leaving(self) -> None:
        within = f"within {LEAVE_TIMEOUT_MS / 1000:g} s"
        self._note(Level.WARNING, f"no goodbye was possible {within}; what was not committed is read again")
        if self._call is not None:
            self.cancelled.append(self._call)
            self._call = None
        self._become(MembershipState.OUTSIDE)

    def _answer_stops(self, now_ms: float) -> None:
        for order, positions in self.ownership.stopped(now_ms):
            answer = StopFetcherAnswer(positions=positions if self.settings.auto_commit else ())
            self._send(
                RegisterConsumerRequest(
                    coordinator_epoch=order.coordinator_epoch,
                    generation=order.generation,
                    sequence=order.sequence,
                    stop_fetcher=answer,
                )
            )
            given_back = sorted(order.partitions)
            self._note_order(False, given_back, order.generation, order.traceparent, order.began_ms, now_ms)
        for order in self.ownership.stops:
            self._wake_by(order.deadline_ms)

    def _send(self, message: RegisterConsumerRequest) -> None:
        assert self._call is not None, "there is a stream"
        message.coordinator_epoch = message.coordinator_epoch or self.coordinator_epoch
        self._call.send(message)

    # -- outcomes --------------------------------------------------------------------------------------------

    def completed(self, call: Call[Any], outcome: Any, now_ms: float) -> None:
        """Handle a message on the stream, or its end."""
        if call is not self._call:
            return
        if isinstance(outcome, RegisterConsumerResponse):
            self._watch_own_pauses(now_ms)
            self._watch_silence(now_ms)
            if call is self._call:
                self._received(outcome, now_ms)
        else:
            self._ended(outcome, now_ms)

    def _received(self, message: RegisterConsumerResponse, now_ms: float) -> None:
        if message.coordinator_epoch < self.coordinator_epoch:
            self._abandon(
                now_ms,
                f"has epoch {message.coordinator_epoch}, and was deposed by that of {self.coordinator_epoch}",
            )
            return
        self.coordinator_epoch = message.coordinator_epoch
        self.generation = max(self.generation, message.generation)
        self._heard_ms = now_ms
        if self.state is MembershipState.LEAVING:
            return  # Nothing is answered after the goodbye.
        kind = message.WhichOneof("message")
        if (kind == "registered") is not (self.state is MembershipState.REGISTERING):
            self._abandon(now_ms, f"sent {kind} out of turn")
            return
        match kind:
            case "registered":
                self._registered(message.registered, now_ms)
            case "ping":
                self._answer(message, ping=PingAnswer(positions=self._moved()))
            case "stop_fetcher":
                order = StopOrder(
                    message.coordinator_epoch,
                    message.generation,
                    message.sequence,
                    now_ms + self._answer_timeout_ms / 2,
                    began_ms=now_ms,
                    traceparent=message.traceparent,
                )
                self.ownership.stop(order, message.stop_fetcher.partitions)
                self._answer_stops(now_ms)
            case "start_fetcher":
                self._note_brokers(message)
                self.ownership.start(message.start_fetcher)
                self._answer(message, start_fetcher=StartFetcherAnswer())
                started = [
                    TopicPartition(each.topic, each.partition)
                    for stream in message.start_fetcher.streams
                    for each in stream.partitions
                ]
                self._note_order(True, started, message.generation, message.traceparent, now_ms, now_ms)
            case _:
                self._note(Level.WARNING, "the coordinator sent something that this version does not know")

    def _note_order(
        self,
        is_start: bool,
        partitions: list[TopicPartition],
        generation: int,
        traceparent: str,
        began_ms: float,
        now_ms: float,
    ) -> None:
        """Note the order for the trace of the rebalance. Without a trace of the coordinator there is none."""
        if self.is_traced and traceparent:
            sample = tuple(f"{each.topic}-{each.partition}" for each in partitions[:SAMPLE_MAX])
            self.facts.append(
                GroupOrder(
                    self.settings.group,
                    is_start,
                    generation,
                    len(partitions),
                    sample,
                    traceparent,
                    began_ms,
                    now_ms,
                )
            )

    def _moved(self) -> list[Any]:
        return self.ownership.positions(self.ownership.owned) if self.settings.auto_commit else []

    def _answer(self, order: RegisterConsumerResponse, **answer: Any) -> None:
        self._send(
            RegisterConsumerRequest(
                coordinator_epoch=order.coordinator_epoch,
                generation=order.generation,
                sequence=order.sequence,
                **answer,
            )
        )

    def _note_brokers(self, message: RegisterConsumerResponse) -> None:
        if message.start_fetcher.brokers:
            self._seeker.cluster.brokers.update(
                (broker.id, f"{broker.host}:{broker.port}") for broker in message.start_fetcher.brokers
            )

    def _registered(self, answer: ConsumerRegistered, now_ms: float) -> None:
        self._become(MembershipState.MEMBER)
        self.member_id = answer.member_id
        self.consumer_id = answer.consumer_id
        self.ping_interval_ms = answer.ping_interval_ms or self.ping_interval_ms
        self._answer_timeout_ms = answer.answer_timeout_ms or self._answer_timeout_ms
        self._registered_ms = now_ms
        self._away_since_ms = self._taken_until_ms = self._last_error = None
        self._was_silent = False
        self.ownership.retain(answer.retained)
        if self._is_leaving:
            self._say_goodbye()
        elif self._is_outdated:
            self._register_again(now_ms)

    def _ended(self, outcome: StreamEnded | HightideError, now_ms: float) -> None:
        if self.state is MembershipState.LEAVING and isinstance(outcome, StreamEnded):
            self._call = None
            self._become(MembershipState.OUTSIDE)
            return
        if isinstance(outcome, HightideError):
            error = outcome
        else:
            error = UnexpectedAnswerError("the coordinator ended the stream without a reason")
        if not isinstance(error, ConsumerIdTakenError):
            # The next refusal may come from another coordinator, which begins its wait for the dead anew.
            self._taken_until_ms = None
        if isinstance(error, UnknownMemberError):
            # It was declared dead: others own its partitions by now. It begins anew, under a new id.
            self._note(Level.WARNING, str(error))
            self.ownership.lose_all()
            self.member_id = ""
        elif isinstance(error, SessionTimedOutError) and self.state is MembershipState.MEMBER:
            # Others may own its partitions by now; the next registration shows it.
            self._was_silent = True
            self.ownership.interrupt()
        elif self._is_final(error, now_ms):
            self._note(Level.ERROR, f"refused: {error}")
            self.ownership.lose_all()
            self._call = None
            self._refused_with = error
            leaving = self.state is MembershipState.LEAVING or self._is_leaving
            self._become(MembershipState.OUTSIDE if leaving else MembershipState.REFUSED)
            return
        self._disconnected(error, now_ms)

    def _is_final(self, error: HightideError, now_ms: float) -> bool:
        """Whether another attempt cannot help."""
        if isinstance(error, ConsumerIdTakenError):
            # A predecessor that died is declared dead within the session timeout; one that is still there
            # after that is alive.
            if self._taken_until_ms is None:
                self._note(Level.WARNING, str(error))
                self._taken_until_ms = now_ms + self.settings.session_timeout_ms
            return now_ms >= self._taken_until_ms
        # A stream ends when its token expires, and the next one brings the token that the client has by then.
        if isinstance(error, InvalidRequestError | AnswerOutOfTurnError | NotAuthenticatedError):
            return self.state is MembershipState.REGISTERING
        return not error.retriable and not isinstance(error, UnexpectedAnswerError)

    def _disconnected(self, error: HightideError, now_ms: float) -> None:
        """Handle the end of the stream. The consumer goes on reading for a while, and tries to come back."""
        was_member = self.state is MembershipState.MEMBER
        if self.state is MembershipState.REGISTERING and isinstance(error, AddressUnreachableError):
            self._unreachable = (self.coordinator_address or "", now_ms)
        self._call = None
        self._last_error = error
        if self._away_since_ms is None:
            self._away_since_ms = now_ms
        self.ownership.connection_lost()
        if self._is_leaving and not self._has_unsaid():
            self._become(MembershipState.OUTSIDE)
            return
        self._become(MembershipState.SEEKING)
        self._named = None
        if was_member:
            self._note(Level.INFO, f"the stream to the coordinator ended: {error}")
            if now_ms - self._registered_ms >= STEADY_MS:
                self._attempts = 0
        if isinstance(error, NotCoordinatorError):
            named = error.metadata.get("coordinator_address", "")
            if ":" in named and named != self.coordinator_address:
                self._named = named
        self._try_later(now_ms, is_overloaded=isinstance(error, OverloadedError))

    def _try_later(self, now_ms: float, *, is_overloaded: bool = False) -> None:
        """Keep a pause that grows, and ask the brokers again for the coordinator."""
        self._attempts += 1
        backoff = OVERLOADED if is_overloaded else RETRY
        self._retry_at_ms = now_ms + backoff.pause_ms(self._attempts, self._random.random())
        self._answers_needed = self._seeker.answer_count + 1
        self._wake_by(self._retry_at_ms)
        waits = self._named is None and not is_overloaded
        self._seeker.want(not_before_ms=self._retry_at_ms if waits else now_ms)
