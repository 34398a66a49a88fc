"""The follower's side of replication: one fetcher for each leader (V3 section G, "At the follower").

Theory of operation. A fetcher keeps one ReplicaFetch open at its leader, for all partitions in which it
follows that leader. The leader holds it while there is nothing new. If a partition joins meanwhile, the
fetcher sends the next round beside the parked one, which makes the leader answer the parked one at once. So a
failover waits for no timer. Partitions that have to be truncated first ask where their epoch ended, all of
them in one call. After a failure the fetcher pauses, from 10 ms doubling to a second, and repeats the call.

If one partition fails, the others go on (KIP-461). It fails if its leader sent damaged batches, or by a bug.
It is tried again after a pause of its own, from a second to a minute.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Final

import grpc
from hightide.batch.errors import BatchError, MalformedMessage
from hightide.batch.header import BatchHeader, iterate
from hightide.batch.wire import (
    ReplicaFetchPartitionResult,
    ReplicaFetchResponse,
    parse_replica_fetch_response,
)
from hightide.calls.backoff import Backoff
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import OpenChannel

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract import convert
from hightide_broker.contract.replica_calls import EpochAnswer, EpochQuestion, Follower, ReplicaFetchCall
from hightide_broker.core.effects import AskEpochEnd, StartFetching
from hightide_broker.core.events import BatchesReceived, BatchSpan, EpochEndReceived, FetchRefused
from hightide_broker.core.fetch_session import FollowerPosition, FollowerSession
from hightide_broker.core.follower import open_question
from hightide_broker.core.replica import Role
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.shell import Payload, ReplicaShell
from hightide_broker.storage import AppendOutOfOrder, StorageError

log = logging.getLogger(__name__)

REPEAT: Final = Backoff(initial_ms=10, maximum_ms=1_000)
CONNECT_TIMEOUT_S: Final = 1.0
"""How long one attempt to reach a leader may take; gRPC tries several times within it."""
CANCEL_AGAIN_S: Final = 1.0
"""How long a cancellation may take before it counts as lost."""
CALL_GRACE_S: Final = 10.0
"""How long a leader may take beyond the wait in the request."""
COPY_AGAIN: Final = Backoff(initial_ms=1_000, maximum_ms=60_000)
ROUNDS_MAX: Final = 2
"""Rounds under way: one that is parked, and one with news."""

_FETCH: Final = "/hightide.v1.ReplicaService/ReplicaFetch"
_EPOCH_ENDS: Final = "/hightide.v1.ReplicaService/EndOffsetForLeaderEpoch"
_FAILURES: Final = (grpc.aio.AioRpcError, MalformedMessage, ConnectionError)

Response = ReplicaFetchResponse[memoryview]
Result = ReplicaFetchPartitionResult[memoryview]


@dataclass(frozen=True, slots=True)
class FailedPartition:
    """A partition that could not be copied, although its leader answered."""

    reason: str
    failures: int
    """The number of failures in a row."""


@dataclass(frozen=True, slots=True)
class FetchSettings:
    """What all fetchers of a broker share."""

    max_wait_ms: int
    max_bytes: int
    follower: Callable[[], Follower]
    """This follower; its broker epoch changes when the broker registers anew."""
    address_of: Callable[[int], HostPort | None]
    """The address of a leader; None if it is not known."""
    registered: Callable[[], Awaitable[None]]
    """Returns once this broker is registered. No leader answers a follower with an earlier epoch."""


class Fetchers:
    """All fetchers of a broker, by leader. There is at most one for each other broker of the cluster."""

    def __init__(
        self,
        replicas: HostedReplicas,
        shell: ReplicaShell,
        settings: FetchSettings,
        connect: OpenChannel,
    ) -> None:
        self._replicas = replicas
        self._shell = shell
        self._settings = settings
        self._open_channel = connect
        self._by_leader: dict[int, LeaderFetcher] = {}
        self._where: dict[PartitionKey, LeaderFetcher] = {}
        self._retired = False

    def start(self, replica: HostedReplica, effect: StartFetching) -> None:
        """Fetch the partition from its leader."""
        if self._retired:
            return
        fetcher = self._move(replica, effect.leader)
        if replica.state.fetch_offset is None:
            fetcher.forget(replica.key)  # What it asked for last may lie outside of its log.
        fetcher.place(replica)

    def failed(self) -> dict[PartitionKey, FailedPartition]:
        """The partitions that are not being copied, for reports about this broker."""
        return {key: each for fetcher in self._by_leader.values() for key, each in fetcher.failed.items()}

    def count_failed(self) -> int:
        """The number of these partitions; called on any thread."""
        return sum(len(fetcher.failed) for fetcher in tuple(self._by_leader.values()))

    @property
    def leader_count(self) -> int:
        """The number of leaders that have a fetcher; called on any thread."""
        return len(self._by_leader)

    def stop(self, replica: HostedReplica) -> None:
        """Stop fetching the partition."""
        if (fetcher := self._where.pop(replica.key, None)) is not None:
            fetcher.forget(replica.key)

    def ask(self, replica: HostedReplica, effect: AskEpochEnd) -> None:
        """Ask the leader where an epoch ended in its log, until it answers."""
        if not self._retired:
            self._move(replica, effect.leader).ask(replica, effect)

    def resume(self, replica: HostedReplica) -> None:
        """Continue to fetch: what was fetched is on disk."""
        if (fetcher := self._where.get(replica.key)) is not None:
            fetcher.place(replica)

    def hold(self, replica: HostedReplica) -> None:
        """Fetch nothing into the replica until `resume`: it is damaged, or waits for its disk."""
        self.resume(replica)

    async def retire(self) -> None:
        """Stop fetching for good, whatever the controller decides. Called once, before a broker hands over
        its leaderships. A leader lets a follower that fetches back into the ISR, and would then wait for this
        broker, which is about to end, until it counts as lagging."""
        self._retired = True
        await self.close()

    async def close(self) -> None:
        """Stop all fetchers."""
        await asyncio.gather(*(fetcher.close() for fetcher in self._by_leader.values()))
        self._by_leader.clear()
        self._where.clear()

    def _move(self, replica: HostedReplica, leader: int) -> LeaderFetcher:
        fetcher = self._by_leader.get(leader)
        if fetcher is None:
            fetcher = LeaderFetcher(leader, self._replicas, self._shell, self._settings, self._open_channel)
            self._by_leader[leader] = fetcher
        before = self._where.get(replica.key)
        if before is not None and before is not fetcher:
            before.forget(replica.key)
        self._where[replica.key] = fetcher
        return fetcher


class LeaderFetcher:
    """Fetches from one leader, in one task."""

    def __init__(
        self,
        leader: int,
        replicas: HostedReplicas,
        shell: ReplicaShell,
        settings: FetchSettings,
        connect: OpenChannel,
    ) -> None:
        self._leader = leader
        self._open_channel = connect
        self._replicas = replicas
        self._shell = shell
        self._settings = settings
        self._session: FollowerSession[PartitionKey] = FollowerSession()
        self._questions: dict[PartitionKey, AskEpochEnd] = {}
        self.failed: dict[PartitionKey, FailedPartition] = {}
        self._retries: dict[PartitionKey, asyncio.TimerHandle] = {}
        self._repeat: set[PartitionKey] = set()
        self._refused: set[PartitionKey] = set()
        self._repeat_timer: asyncio.TimerHandle | None = None
        self._failures = 0
        self._repeats = 0
        self._stir = asyncio.Event()
        self._rounds: deque[tuple[bool, asyncio.Future[bytes]]] = deque()
        self._asking: asyncio.Future[bytes] | None = None
        self._asked: Sequence[tuple[PartitionKey, AskEpochEnd]] = ()
        self._channel: grpc.aio.Channel | None = None
        self._task = asyncio.get_running_loop().create_task(self._run(), name=f"fetch-from-{leader}")

    def place(self, replica: HostedReplica) -> None:
        """Fetch the partition from the end of its log, once the log is on disk if it has to be."""
        state = replica.state
        if replica.is_held:
            self._session.forget(replica.key)  # Else its leader would let it into the ISR again.
            return
        if state.role is Role.TRUNCATING:
            return  # An earlier flush has ended; the question where the two logs diverge is still open.
        self._questions.pop(replica.key, None)
        if (offset := state.fetch_offset) is not None and state.leader == self._leader:
            position = FollowerPosition(
                state.leader_epoch, offset, state.log_start_offset, state.decision.partition_epoch
            )
            self._session.place(replica.key, position)
            self._stir.set()

    def ask(self, replica: HostedReplica, effect: AskEpochEnd) -> None:
        """Ask where an epoch ended. The partition is not fetched until the answer."""
        self._session.forget(replica.key)
        self._questions[replica.key] = effect
        self._stir.set()

    def forget(self, key: PartitionKey) -> None:
        """Drop the partition: it has another leader, or none."""
        self._questions.pop(key, None)
        self._repeat.discard(key)
        self._refused.discard(key)
        self._recovered(key)
        self._session.forget(key)

    async def close(self) -> None:
        """Stop, and wait until everything is released."""
        while not self._task.done():
            # One cancellation may not be enough: it is lost if code on the way takes it for its own.
            self._task.cancel()
            await asyncio.wait([self._task], timeout=CANCEL_AGAIN_S)
        if self._repeat_timer is not None:
            self._repeat_timer.cancel()
        for retry in self._retries.values():
            retry.cancel()

    # --- the conversation ------------------------------------------------------------------------

    async def _run(self) -> None:
        await self._settings.registered()
        try:
            while True:
                try:
                    await self._converse()
                except _FAILURES as error:
                    self._log_failure(error)
                except Exception:
                    # The top of a task: a bug in one round must not end replication for good.
                    log.exception("fetching from broker %d failed", self._leader)
                await self._begin_anew()
                self._failures += 1
                await asyncio.sleep(REPEAT.pause_s(self._failures))
                self._stir.set()
        finally:
            await self._let_go()

    async def _converse(self) -> None:
        """Send rounds and handle their answers in turn, until a failure."""
        while True:
            await self._stir.wait()
            self._stir.clear()
            if self._channel is None and (len(self._session) or self._questions):
                await self._connect()
            while self._rounds and self._rounds[0][1].done():
                opening, answered = self._rounds.popleft()
                self._take_round(opening, parse_replica_fetch_response(_result_of(answered)))
            if self._asking is not None and self._asking.done():
                answered, self._asking = self._asking, None
                self._take_epoch_ends(convert.epoch_answers_in(_result_of(answered)))
            if self._asking is None and self._questions:
                self._send_questions()
            if self._may_send():
                self._send_round()

    async def _connect(self) -> None:
        """Connect to the leader before the first call. The first round of a session names every partition,
        and during a failover there is no time to build it for a dead leader again and again.

        Raises ConnectionError; the next attempt looks up the address again.
        """
        address = self._settings.address_of(self._leader)
        if address is None:
            raise ConnectionError(f"no address is known of broker {self._leader}")
        self._channel = self._open_channel(address)
        try:
            # Not wait_for: that of Python 3.11 forgets a cancellation that comes together with the answer.
            async with asyncio.timeout(CONNECT_TIMEOUT_S):
                await self._channel.channel_ready()
        except TimeoutError:
            raise ConnectionError(f"nobody answers at {address}") from None

    def _may_send(self) -> bool:
        if not self._rounds:
            return len(self._session) > 0 or self._session.has_news
        # The first round of a session is answered at once; until then there is no session to go on with.
        under_way = len(self._rounds)
        return self._session.has_news and self._session.session_id != 0 and under_way < ROUNDS_MAX

    def _send_round(self) -> None:
        settings = self._settings
        asked = self._session.next_request()
        call = ReplicaFetchCall(settings.follower(), asked, settings.max_wait_ms, settings.max_bytes)
        opening = asked.session_id == 0
        if not opening:
            # Rounds count when they are sent: the next one may leave before this one is answered.
            self._session.answered(asked.session_id)
        timeout_s = settings.max_wait_ms / 1000 + CALL_GRACE_S
        self._rounds.append((opening, self._send(_FETCH, convert.replica_fetch_out(call), timeout_s)))

    def _send_questions(self) -> None:
        self._asked = tuple(self._questions.items())
        questions = [EpochQuestion(key, each.leader_epoch, each.epoch) for key, each in self._asked]
        request = convert.epoch_questions_out(self._settings.follower(), questions)
        self._asking = self._send(_EPOCH_ENDS, request, CALL_GRACE_S)

    def _send(self, method: str, request: bytes, timeout_s: float) -> asyncio.Future[bytes]:
        assert self._channel is not None
        send: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = self._channel.unary_unary(method)
        sent = asyncio.ensure_future(_outcome(send(request, timeout=timeout_s)))
        sent.add_done_callback(lambda _: self._stir.set())
        return sent

    async def _begin_anew(self) -> None:
        """Reset after a failure: no call is under way, and the session and the connection are new."""
        try:
            await self._let_go()
        except Exception:
            # Still the top of the task: whatever cannot be released is left behind.
            log.exception("closing the connection to broker %d failed", self._leader)
        self._session.restart()

    async def _let_go(self) -> None:
        under_way = [call for _, call in self._rounds]
        if self._asking is not None:
            under_way.append(self._asking)
        self._rounds.clear()
        self._asking = None
        for call in under_way:
            call.cancel()
        if under_way:
            # Nobody waits for their outcomes. They are retrieved so that none is reported as never retrieved.
            await asyncio.gather(*under_way, return_exceptions=True)
        if self._channel is not None:
            channel, self._channel = self._channel, None
            await channel.close()

    def _log_failure(self, error: BaseException) -> None:
        said = f"{error.code().name}: {error.details()}" if isinstance(error, grpc.aio.AioRpcError) else error
        level = logging.INFO if self._failures == 0 else logging.DEBUG
        log.log(level, "fetching from broker %d is repeated: %s", self._leader, said)

    # --- answers ---------------------------------------------------------------------------------

    def _take_round(self, opening: bool, response: Response) -> None:
        if opening:
            if response.session_id <= 0:
                raise MalformedMessage(f"broker {self._leader} opened a fetch session without an id")
            self._session.answered(response.session_id)
        self._failures = 0
        for result in response.partitions:
            replica = self._replicas.get((result.topic_id, result.partition))
            if replica is None or not self._is_followed(replica):
                # It was removed or stopped, or has another leader, since the round was sent.
                self._session.forget((result.topic_id, result.partition))
                self._refused.discard((result.topic_id, result.partition))
                continue
            try:
                self._take_result(replica, result)
            except Exception as error:
                # Like the top of a task: a bug in one partition must not stop the others (KIP-461).
                log.exception("%s: taking what broker %d sent failed", replica, self._leader)
                self._fail(replica, f"{type(error).__name__}: {error}")
        if not self._refused:
            self._repeats = 0

    def _is_followed(self, replica: HostedReplica) -> bool:
        return replica.state.is_follower and replica.state.leader == self._leader

    def _take_result(self, replica: HostedReplica, result: Result) -> None:
        """Handle one partition of a round."""
        if result.error_code:
            self._take_refusal(replica, result)
            return
        try:
            headers: list[BatchHeader] = [header for _, header in iterate(result.batches)]
            spans = tuple(BatchSpan(h.base_offset, h.record_count, h.leader_epoch) for h in headers)
            event = BatchesReceived(
                self._leader, result.leader_epoch, spans, result.high_watermark, result.log_start_offset
            )
            if result.leader_epoch == replica.state.leader_epoch:
                # First: retention, on its thread, deletes by this and by the high watermark that follows.
                # What a leader before this one had deleted this one may have, after an unclean election.
                replica.leaders_log_start = result.log_start_offset
            self._shell.feed(replica, event, Payload(result.batches, headers))
        except (BatchError, AppendOutOfOrder) as error:
            self._fail(replica, f"what broker {self._leader} sent does not fit: {error}")
            return
        except StorageError as error:
            log.warning("%s: what broker %d sent is not appended: %s", replica, self._leader, error)
            self._repeat_later(replica)
            return
        self._refused.discard(replica.key)
        if headers:
            self._recovered(replica.key)
            self.place(replica)

    def _take_refusal(self, replica: HostedReplica, result: Result) -> None:
        asked = self._session.positions.get(replica.key)
        if asked is None:
            return
        refusal = convert.refusal_of(result.error_code)
        event = FetchRefused(self._leader, asked.leader_epoch, refusal, result.log_start_offset)
        try:
            effects = self._shell.feed(replica, event)
        except StorageError as error:
            log.warning("%s: starting again where broker %d starts failed: %s", replica, self._leader, error)
            effects = ()
        if not effects:
            self._repeat_later(replica)

    def _take_epoch_ends(self, answers: Sequence[EpochAnswer]) -> None:
        asked, self._asked = self._asked, ()
        if len(answers) != len(asked):
            raise MalformedMessage(f"{len(asked)} epoch questions got {len(answers)} answers")
        for (key, question), answer in zip(asked, answers, strict=True):
            replica = self._replicas.get(key)
            if self._questions.get(key) != question or replica is None:
                continue  # the partition has moved on meanwhile
            del self._questions[key]
            try:
                self._take_epoch_end(replica, question, answer)
            except StorageError as error:
                log.warning("%s: truncation failed: %s", replica, error)
                self._repeat_later(replica)
            except Exception as error:
                # As with rounds: one partition must not stop the others.
                log.exception("%s: truncating its log to that of broker %d failed", replica, self._leader)
                self._fail(replica, f"{type(error).__name__}: {error}")

    def _take_epoch_end(self, replica: HostedReplica, question: AskEpochEnd, answer: EpochAnswer) -> None:
        if answer.code:
            refusal = convert.refusal_of(answer.code)
            self._shell.feed(replica, FetchRefused(self._leader, question.leader_epoch, refusal))
            self._repeat_later(replica)
        else:
            self._refused.discard(replica.key)
            end = answer.end
            effects = self._shell.feed(replica, EpochEndReceived(question, end.epoch, end.end_offset))
            if not effects:
                self._repeat_later(replica)  # It was of no use, and the question is not answered.

    # --- trying again ----------------------------------------------------------------------------

    def _fail(self, replica: HostedReplica, reason: str) -> None:
        """Take note that the partition failed. It is tried again, with growing pauses."""
        key = replica.key
        before = self.failed.get(key)
        failures = 1 if before is None else before.failures + 1
        pause_s = COPY_AGAIN.pause_s(failures)
        log.error("%s: not copied, tried again in %.0f s: %s", replica, pause_s, reason)
        self.failed[key] = FailedPartition(reason, failures)
        self._refused.discard(key)
        self._session.forget(key)
        if (retry := self._retries.pop(key, None)) is not None:
            retry.cancel()
        self._retries[key] = asyncio.get_running_loop().call_later(pause_s, self._ask_for, key)

    def _recovered(self, key: PartitionKey) -> None:
        self.failed.pop(key, None)
        if (retry := self._retries.pop(key, None)) is not None:
            retry.cancel()

    def _repeat_later(self, replica: HostedReplica) -> None:
        """Ask for the partition again after a pause, because its leader may not know yet that it leads.
        Pauses grow until every refused partition has been answered."""
        self._repeat.add(replica.key)
        self._refused.add(replica.key)
        if self._repeat_timer is None:
            loop = asyncio.get_running_loop()
            self._repeats += 1
            self._repeat_timer = loop.call_later(REPEAT.pause_s(self._repeats), self._repeat_now)

    def _repeat_now(self) -> None:
        self._repeat_timer = None
        keys, self._repeat = self._repeat, set()
        for key in keys:
            self._ask_for(key)

    def _ask_for(self, key: PartitionKey) -> None:
        self._retries.pop(key, None)
        replica = self._replicas.get(key)
        if replica is None or not self._is_followed(replica):
            return
        state = replica.state
        if state.role is Role.TRUNCATING:
            self._questions.setdefault(key, open_question(state))
            self._stir.set()
        else:
            self.place(replica)


def _result_of(answered: asyncio.Future[bytes]) -> bytes:
    """The answer of a call. Raises AioRpcError, or ConnectionError if the connection was closed."""
    if answered.cancelled():
        # As another error: a CancelledError would end the caller's task.
        raise ConnectionError("the call was cancelled with its connection")
    return answered.result()


async def _outcome(call: grpc.aio.UnaryUnaryCall[bytes, bytes]) -> bytes:
    response = await call
    assert isinstance(response, bytes)
    return response
