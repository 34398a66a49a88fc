"""The leader's side of replication: fetch sessions and epoch questions of followers (V3 section G).

Theory of operation. A follower keeps one ReplicaFetch parked here, for all partitions in which it follows
this broker. An append wakes it. A new high watermark does not: it goes with the next answer, at the latest
when the wait is over, because followers need it only when they are elected. A follower that begins to follow
another partition sends its next round while the last one is parked. The parked one is then answered at once,
so that nothing waits for a timer.

Data for a replica that a move adds has a speed limit (`throttle`). When it is used up, such partitions are
left out of the answers, at no cost, until there is room again. Other partitions of the same session go on.
They also go on while another partition is read from disk (`cold_reads`).
"""

from __future__ import annotations

import logging
from collections.abc import Sequence
from concurrent.futures import Executor
from typing import Final

from hightide.batch.errors import BatchError
from hightide.batch.header import Buffer
from hightide.batch.wire import ReplicaFetchPartitionResult, ReplicaFetchResponse
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.answer_budget import AnswerBudget
from hightide_runtime.serving.fair_limit import Holder

from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract import convert
from hightide_broker.contract.replica_calls import EpochAnswer, EpochQuestion, Follower, ReplicaFetchCall
from hightide_broker.core.effects import AnswerEpochEnd
from hightide_broker.core.events import EpochEndAsked, FollowerFetched
from hightide_broker.core.fetch_session import FollowerPosition, LeaderSession, LeaderSessions, SessionFault
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.limits import FETCH_BYTES_MAX, bounded_wait_ms
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.parking import ParkedFetch
from hightide_broker.replica.shell import ReplicaShell, refusal_in
from hightide_broker.replication.cold_reads import ColdReads
from hightide_broker.replication.throttle import MoveLimit
from hightide_broker.storage import StorageError

log = logging.getLogger(__name__)

Result = ReplicaFetchPartitionResult[Sequence[Buffer]]
Session = LeaderSession[PartitionKey]

NO_BATCHES: Final[Sequence[Buffer]] = ()
NO_END: Final = EpochEnd(NO_EPOCH, -1)


class ReplicaServer:
    """Answers ReplicaFetch and EndOffsetForLeaderEpoch. One for each broker."""

    def __init__(
        self,
        cluster_id: str,
        clock: Clock,
        replicas: HostedReplicas,
        sessions: LeaderSessions[PartitionKey],
        shell: ReplicaShell,
        reads: Executor,
        answers: AnswerBudget,
    ) -> None:
        """`reads` runs reads of what is only on disk. `answers`: those that followers have not read yet."""
        self._cluster_id = cluster_id
        self._clock = clock
        self._replicas = replicas
        self._sessions = sessions
        self._shell = shell
        self._answers = answers
        self._moves: MoveLimit[Session] = MoveLimit(clock, self._wake)
        self._cold_reads = ColdReads(reads, self._wake)
        # Partitions that were read and wait for the speed limit must not take the place of those that need
        # not wait.
        self._cold_moves = ColdReads(reads, self._wake)
        self._closed = False

    async def fetch(self, call: ReplicaFetchCall, peer: Holder) -> ReplicaFetchResponse[Sequence[Buffer]]:
        """Answer one round of a session. `peer`: the follower and its connection. Raises ServiceError if the
        session cannot go on."""
        self._check_cluster(call.follower)
        if call.follower.incarnation < 0:
            # ZooKeeper takes -1 for any version: such a follower would join an ISR in whatever life.
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"broker {call.follower.replica_id} says that its incarnation is "
                f"{call.follower.incarnation}; it is 0 or more",
            )
        session = self._session(call)
        if (superseded := self._shell.parked_rounds.get(session)) is not None:
            superseded.wake()
        positions = session.receive(call.session.moved, call.session.forgotten)
        results = self._take_positions(session, call.follower, positions)
        self._cold_reads.next_round(session)
        self._cold_moves.next_round(session)
        opening = call.session.session_id == 0
        if results or opening or self._has_batches(session):
            self._collect(session, self._room(call, peer), results)
        if not (results or opening or self._closed):
            await self._park(session, call, peer)
            self._collect(session, self._room(call, peer), results)
        return ReplicaFetchResponse(session.session_id, tuple(results))

    def epoch_ends(self, follower: Follower, questions: Sequence[EpochQuestion]) -> list[EpochAnswer]:
        """Where epochs ended in this broker's logs, one answer for each question."""
        self._check_cluster(follower)
        return [self._epoch_end(question) for question in questions]

    def limit_moves(self, bytes_per_s: int) -> None:
        """Limit the bytes a second to replicas that moves add, all together; 0: no limit. Takes effect at
        once."""
        self._moves.set_rate(bytes_per_s)

    def close(self) -> None:
        """Answer the parked rounds now: the broker stops."""
        self._closed = True
        self._moves.close()
        for parked in tuple(self._shell.parked_rounds.values()):
            parked.wake()

    def _check_cluster(self, follower: Follower) -> None:
        if follower.cluster_id != self._cluster_id:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID,
                f"broker {follower.replica_id} belongs to cluster {follower.cluster_id[:64]!r}, this one to "
                f"{self._cluster_id!r}; point both at the same ZooKeeper",
            )

    def _session(self, call: ReplicaFetchCall) -> Session:
        asked, follower = call.session, call.follower
        if asked.session_id == 0:
            for other in self._sessions:
                if other.replica_id == follower.replica_id and other.broker_epoch > follower.broker_epoch:
                    raise ServiceError(
                        ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH,
                        f"broker {follower.replica_id} was started again since broker epoch "
                        f"{follower.broker_epoch}; register anew",
                    )
            return self._sessions.open(follower.replica_id, follower.broker_epoch)
        found = self._sessions.find(asked.session_id, follower.replica_id, follower.broker_epoch, asked.round)
        if isinstance(found, SessionFault):
            code = (
                ErrorCode.ERROR_CODE_UNKNOWN_FETCH_SESSION
                if found is SessionFault.UNKNOWN
                else ErrorCode.ERROR_CODE_FETCH_SESSION_OUT_OF_TURN
            )
            raise ServiceError(
                code, f"fetch session {asked.session_id} round {asked.round} cannot go on; open a new one"
            )
        return found

    def _take_positions(
        self, session: Session, follower: Follower, positions: Sequence[tuple[PartitionKey, FollowerPosition]]
    ) -> list[Result]:
        """Pass the follower's positions on to the leaders; returns the results of those that were refused."""
        now_ms = self._clock.monotonic_ms()
        results: list[Result] = []
        for key, position in positions:
            replica = self._replicas.get(key)
            if replica is None:
                session.drop(key)
                results.append(_refused(key, ErrorCode.ERROR_CODE_UNKNOWN_PARTITION, None))
                continue
            event = FollowerFetched(
                follower.replica_id,
                position.leader_epoch,
                position.fetch_offset,
                now_ms,
                follower.incarnation,
                position.partition_epoch,
            )
            try:
                refusal = refusal_in(self._shell.feed(replica, event))
            except Exception:
                # As below, where answers are collected: one partition must not stop the others.
                log.exception("%s: hearing of the position of broker %d failed", replica, follower.replica_id)
                session.drop(key)
                results.append(_refused(key, ErrorCode.ERROR_CODE_INTERNAL, replica))
                continue
            if refusal is not None:
                session.drop(key)
                results.append(_refused(key, convert.error_code_of(refusal), replica))
        return results

    def _has_batches(self, session: Session) -> bool:
        """Whether the round should be answered at once: it has batches or an error, not only a high
        watermark."""
        for key in session.touched():
            replica = self._replicas.get(key)
            if replica is None or not replica.state.is_leader:
                return True
            state = replica.state
            answer = session.examine(
                key, leader_epoch=state.leader_epoch, log_end_offset=state.log_end_offset,
                high_watermark=state.high_watermark, log_start_offset=state.log_start_offset,
            )  # fmt: skip
            if answer is None:
                continue
            if answer.leader_epoch != state.leader_epoch:
                return True
            if answer.has_batches:
                if not self._is_limited(session, replica):
                    return True
                self._hold(session, key)
        return session.is_holding and self._moves.allowed_bytes(session) > 0

    @staticmethod
    def _is_limited(session: Session, replica: HostedReplica) -> bool:
        """Whether data of the partition for this follower counts against the speed limit of moves."""
        if session.replica_id not in replica.adding_replicas:
            return False
        leading = replica.state.leading
        return leading is not None and session.replica_id not in leading.isr.maximal

    def _hold(self, session: Session, key: PartitionKey) -> None:
        session.hold(key, is_next=self._cold_moves.is_read(session, key))

    def _wake(self, session: Session) -> bool:
        parked = self._shell.parked_rounds.get(session)
        if parked is not None:
            parked.wake()
        return parked is not None

    def _room(self, call: ReplicaFetchCall, peer: Holder) -> int:
        """How many bytes of batches the answer may have. A follower that has read its answers gets at least
        one batch, whatever others have not read; one that has not may have to wait."""
        least = 0 if self._answers.held(peer) else 1
        return min(max(1, min(call.max_bytes, FETCH_BYTES_MAX)), max(least, self._answers.room(peer)))

    async def _park(self, session: Session, call: ReplicaFetchCall, peer: Holder) -> None:
        parked = ParkedFetch()
        self._shell.parked_rounds[session] = parked
        lacks_room = self._room(call, peer) == 0
        if lacks_room:
            self._answers.wait(peer, parked)
        try:
            await parked.wait(bounded_wait_ms(call.max_wait_ms))
        finally:
            if lacks_room:
                self._answers.leave(peer, parked)
            # A later round of the session may have parked in the same place by now.
            if self._shell.parked_rounds.get(session) is parked:
                del self._shell.parked_rounds[session]

    def _collect(self, session: Session, whole: int, results: list[Result]) -> None:
        """Add what is new, as long as there is room (`whole` bytes); the rest stays for the next round."""
        room = whole
        for key in session.touched():
            room -= self._collect_from(session, key, room, room < whole, results)
        while session.is_holding and room > 0 and (allowed := self._moves.allowed_bytes(session)):
            key = session.release()
            room -= self._collect_from(session, key, room, room < whole, results, allowed)
            if session.is_aside(key):
                break  # Others are read when it is sent: no more than the limit allows.

    def _collect_from(
        self, session: Session, key: PartitionKey, room: int, must_fit: bool, results: list[Result],
        allowed: int = 0,
    ) -> int:  # fmt: skip
        """Add what is new of one partition; returns the number of bytes. `allowed` is the rest of the speed
        limit of moves: at 0, limited partitions are held back."""
        if key not in session:
            return 0
        replica = self._replicas.get(key)
        if replica is None or not replica.state.is_leader:
            session.drop(key)
            results.append(_refused(key, ErrorCode.ERROR_CODE_NOT_LEADER, replica))
            return 0
        try:
            return self._collect_one(session, replica, room, must_fit, results, allowed)
        except (StorageError, BatchError) as error:
            log.error("%s: broker %d is not sent what it lacks: %s", replica, session.replica_id, error)
            code = error.code
        except Exception:
            # Like the top of a task: a bug that one partition meets must not stop the others (KIP-461).
            log.exception("%s: reading for broker %d failed", replica, session.replica_id)
            code = ErrorCode.ERROR_CODE_INTERNAL
        session.drop(key)
        results.append(_refused(key, code, replica))
        return 0

    def _collect_one(
        self, session: Session, replica: HostedReplica, room: int, must_fit: bool, results: list[Result],
        allowed: int,
    ) -> int:  # fmt: skip
        state = replica.state
        answer = session.examine(
            replica.key, leader_epoch=state.leader_epoch, log_end_offset=state.log_end_offset,
            high_watermark=state.high_watermark, log_start_offset=state.log_start_offset,
        )  # fmt: skip
        if answer is None or (answer.has_batches and room <= 0):
            return 0
        if answer.leader_epoch != state.leader_epoch:
            session.drop(replica.key)
            results.append(_refused(replica.key, ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH, replica))
            return 0
        batches = NO_BATCHES
        is_limited = answer.has_batches and self._is_limited(session, replica)
        if is_limited and not allowed:
            self._hold(session, replica.key)
            return 0
        cold: ColdReads | None = None
        if answer.has_batches:
            size_max = min(room, allowed) if is_limited else room
            found: Sequence[Buffer] | None
            found = replica.log.read_memory(answer.fetch_offset, size_max, state.log_end_offset)
            if found is None:
                cold = self._cold_moves if is_limited else self._cold_reads
                found = cold.read(session, replica, answer.fetch_offset, size_max)
                if found is None:
                    return 0
            batches = found
            if must_fit and sum(map(len, batches)) > room:
                # One batch is larger than the room that is left, and both might exceed the limit of a
                # message. It stays marked, so it comes first in the next round.
                return 0
        results.append(
            ReplicaFetchPartitionResult(
                replica.key[0], replica.key[1], 0, state.leader_epoch, state.high_watermark,
                state.log_start_offset, batches,
            )
        )  # fmt: skip
        session.told(answer, state.high_watermark, state.log_start_offset)
        if cold is not None:
            cold.sent(session, replica.key)
        size_bytes = sum(map(len, batches))
        self._shell.counters.replicated_out_bytes += size_bytes
        if is_limited:
            self._moves.spend(session, size_bytes)
        return size_bytes

    def _epoch_end(self, question: EpochQuestion) -> EpochAnswer:
        replica = self._replicas.get(question.key)
        if replica is None:
            return EpochAnswer(question.key, ErrorCode.ERROR_CODE_UNKNOWN_PARTITION, NO_END)
        effects = self._shell.feed(replica, EpochEndAsked(question.current_leader_epoch, question.epoch))
        for effect in effects:
            if isinstance(effect, AnswerEpochEnd):
                return EpochAnswer(question.key, ErrorCode.ERROR_CODE_UNSPECIFIED, effect.end)
        refusal = refusal_in(effects)
        assert refusal is not None, f"{replica} neither answered nor refused an epoch question"
        return EpochAnswer(question.key, convert.error_code_of(refusal), NO_END)


def _refused(key: PartitionKey, code: ErrorCode.ValueType, replica: HostedReplica | None) -> Result:
    epoch = -1 if replica is None else replica.state.leader_epoch
    log_start_offset = 0 if replica is None else replica.state.log_start_offset
    return ReplicaFetchPartitionResult(key[0], key[1], code, epoch, -1, log_start_offset, NO_BATCHES)
