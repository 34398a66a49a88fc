"""A simulated broker: the shell around one real replica core, with a disk that survives crashes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from hightide_broker.core import effects as fx
from hightide_broker.core import events as ev
from hightide_broker.core import invariants
from hightide_broker.core.fetch_session import (
    FollowerPosition,
    FollowerSession,
    LeaderSession,
    LeaderSessions,
    SessionFault,
)
from hightide_broker.core.isr import next_deadline_ms
from hightide_broker.core.machine import step
from hightide_broker.core.refusals import Refusal
from hightide_broker.core.replica import UNTOLD_EPOCH, Replica, ReplicaSettings, Role
from hightide_controller.core.values.partition import LeaderAndIsr
from msgspec.structs import replace
from sim.disk import Disk, PowerCut
from sim.messages import (
    KEY,
    ZOOKEEPER,
    AskEpoch,
    Body,
    CallFailed,
    Command,
    CommandAnswer,
    Envelope,
    EpochAnswer,
    Fetch,
    FetchAnswer,
    Look,
    Noticed,
    Record,
    SessionEnded,
    View,
    Write,
    WriteAnswer,
)
from sim.surroundings import Surroundings
from sim.words import as_decided, as_read, as_stored, is_for_an_earlier_life, is_of_another_epoch
from sim.zookeeper import (
    STATE,
    Check,
    Create,
    Delete,
    Operation,
    Put,
    Stored,
    incarnation,
    registration,
)

Told = ev.LeaderAndIsrDecided | ev.EpochEndReceived | ev.BatchesReceived | ev.FetchRefused
"""What a broker is told by others, and may be told twice."""
TOLD_MAX = 12


class SimBroker:
    """One broker with one replica. Every method leaves the core's invariants whole."""

    def __init__(self, world: Surroundings, settings: ReplicaSettings, replicas: tuple[int, ...]) -> None:
        self.world = world
        self.broker_id = settings.broker_id
        self.settings = settings
        self.replicas = replicas
        self.disk = Disk()
        self.alive = False
        self.paused = False
        self.lives = 0
        self.out_at = -1
        """The version of leaderAndISR at which it last found itself in no ISR after it had lost its tail."""

    def start(self) -> None:
        """A new life: open what the disk holds, register, and read the znode (V3 E)."""
        self.open()
        self.session = self.world.open_session()
        self._look_then(self._begin_incarnation)

    def open(self, *, is_new: bool = False) -> None:
        """The part of a start that touches nothing but the disk."""
        assert not self.alive
        self.alive = True
        self.lives += 1
        disk = self.disk
        disk.open()
        self.state = Replica.opened(
            self.settings,
            log_start_offset=disk.log_start,
            log_end_offset=len(disk.log),
            high_watermark=disk.high_watermark_checkpoint,
            epochs=tuple(sorted(disk.epochs.items())),
            is_new=is_new,
        )
        self.sessions: LeaderSessions[str] = LeaderSessions(self.lives * 1000)
        self.parked: dict[LeaderSession[str], Envelope] = {}
        self.acks: list[tuple[int, int]] = []
        self.fetching_from = -1
        self.fetcher: FollowerSession[str] = FollowerSession()
        self.fetch_call = 0
        self.refused = False
        self.asking: fx.AskEpochEnd | None = None
        self.ask_call = 0
        self.retries: list[Callable[[], None]] = []
        self.told: deque[tuple[Told, tuple[Record, ...]]] = deque(maxlen=TOLD_MAX)
        self.broker_epoch = -1
        self.incarnation = -1

    def crash(self, power: PowerCut | None = None, *, loses_disk: bool = False) -> None:
        """The process dies, with its machine where `power` is given; `loses_disk`: it gets another disk."""
        assert self.alive
        self.alive = False
        self.paused = False
        if power is None and not loses_disk:
            self.disk.forget_empty_epochs()
            return
        disk = self.disk
        before = disk.log
        # With flush=fsync nobody was told of what is not on the disk.
        disk.is_doubtful = disk.is_doubtful or loses_disk or not self.settings.flush_on_disk
        if loses_disk:
            disk.replace()
        else:
            assert power is not None
            disk.lose(power)
        after = disk.log
        gone = [each for at, each in enumerate(before) if after[at : at + 1] != [each]]
        self.world.lost(self.broker_id, gone)
        self.world.log_changed()

    # --- ZooKeeper -------------------------------------------------------------------------------

    def _begin_incarnation(self, view: View) -> None:
        """From here on no follower's word of an earlier life lets it join an ISR."""
        before = dict(view.incarnations).get(self.broker_id)
        path = incarnation(self.broker_id)
        operation: Operation = Create(path, "") if before is None else Put(path, "", before)

        def begun(body: Body) -> None:
            if isinstance(body, WriteAnswer) and body.refused is None:
                self.incarnation = 0 if before is None else before + 1
                self._look_then(self._leave_isr)
            else:
                self._look_then(self._begin_incarnation)

        self.world.call(self.broker_id, ZOOKEEPER, Write((operation,)), begun)

    def _leave_isr(self, view: View) -> None:
        """A log that may lack records takes itself out of the ISR before it registers, and says
        what it still has; so does one of which that is written from an earlier life."""
        if view.state is None:
            self._register_over(view)
            return
        stored, version, _ = view.state
        after = stored.without(self.broker_id, self.state.epochs.latest_epoch, len(self.disk.log))
        is_doubted = self.broker_id in stored.doubted
        leaves = self.disk.is_doubtful and self.broker_id in stored.trusted
        if after == stored or not (is_doubted or leaves):
            if self.disk.is_doubtful:
                self.disk.is_doubtful = False
                self.out_at = version
            self._register_over(view)
            return
        departure = Put(STATE, after, version)
        self.world.call(
            self.broker_id, ZOOKEEPER, Write((departure,)), lambda body: self._look_then(self._leave_isr)
        )

    def _register_over(self, view: View) -> None:
        """Put the registration in place of an earlier life's, then read what was decided."""
        old = [broker for broker, _ in view.brokers if broker == self.broker_id]
        path = registration(self.broker_id)
        create: Operation = Create(path, self.lives, self.session)
        operations = (Delete(path), create) if old else (create,)
        self.world.call(self.broker_id, ZOOKEEPER, Write(operations), self._registered)

    def _registered(self, body: Body) -> None:
        # Whether it happened or not, the znode tells; a registration by another session is replaced.
        self._look_then(self._start_up)

    def _start_up(self, view: View) -> None:
        if dict(view.sessions).get(self.broker_id) != self.session:
            self._register_over(view)
            return
        self.broker_epoch = dict(view.brokers)[self.broker_id]
        if view.state is not None:
            stored, version, _ = view.state
            self._decided(stored.controller_epoch, stored, self.replicas, version, is_live=False)

    def _look_then(self, then: Callable[[View], None]) -> None:
        def looked(body: Body) -> None:
            if isinstance(body, View):
                then(body)
            else:
                self.retries.append(lambda: self._look_then(then))

        self.world.call(self.broker_id, ZOOKEEPER, Look(), looked)

    def _store_isr(self, effect: fx.StoreIsr) -> None:
        expected = effect.expected_partition_epoch
        stored = as_stored(self.broker_id, effect)

        def stored_or_not(body: Body) -> None:
            if isinstance(body, CallFailed):
                self.feed(ev.IsrStoreUnknown(expected))
                return
            assert isinstance(body, WriteAnswer)
            if body.refused is None:
                self.feed(ev.IsrStored(expected + 1))
            else:
                self.feed(ev.IsrStoreRefused(expected, for_good=isinstance(body.refused, Check)))

        lives = [Check(incarnation(member), life) for member, life in effect.joining]
        write = Write((*lives, Put(STATE, stored, expected)))
        self.world.call(self.broker_id, ZOOKEEPER, write, stored_or_not)

    def _isr_read(self, view: View) -> None:
        assert view.state is not None
        stored, version, _ = view.state
        self.feed(as_read(stored, version, self.world.now_ms))

    # --- the core --------------------------------------------------------------------------------

    def feed(self, event: ev.Event, records: tuple[Record, ...] = ()) -> fx.Effects:
        """One step of the core, its effects performed in order (see hightide_broker.core.effects)."""
        was_leader = self.state.is_leader
        if isinstance(event, Told):
            self.told.append((event, records))
        self.state, effects = step(self.state, event)
        for effect in effects:
            self._perform(effect, records)
        invariants.check(self.state)
        assert self.state.log_end_offset == len(self.disk.log)
        if was_leader and not self.state.is_leader:
            self._touch(wake=True)
        return effects

    def _perform(self, effect: fx.Effect, records: tuple[Record, ...]) -> None:
        disk = self.disk
        match effect:
            case fx.PersistEpoch(epoch, start):
                disk.assign_epoch(epoch, start)
            case fx.TruncateTo(offset, lost_committed):
                disk.cut(offset, durable=lost_committed)
                self.world.log_changed()
            case fx.Append(base_offset, leader_epoch, end_offset):
                disk.append([(leader_epoch, value) for _, value in records])
                self.acks += [(end_offset, value) for _, value in records]
                assert end_offset - base_offset == len(records)
                self.world.log_changed()
                self._touch(wake=True)
            case fx.AppendFetched(base_offset, end_offset):
                assert base_offset == len(disk.log)
                disk.append(records[len(records) - (end_offset - base_offset) :])
                self.world.log_changed()
            case fx.StoreIsr():
                self._store_isr(effect)
            case fx.AwaitFetch(replica_id):
                self.sessions.want(replica_id, KEY)
            case fx.ReadLeaderAndIsr():
                self._look_then(self._isr_read)
            case fx.AdvanceHighWatermark():
                self.world.committed(self)
                self._touch(wake=False)
            case fx.AnswerProduces(end_offset, refusal):
                for offset, value in self.acks:
                    if offset <= end_offset and refusal is None:
                        record = disk.log[offset - 1]
                        assert record[1] == value
                        self.world.acknowledged(self.broker_id, offset - 1, record)
                self.acks = [ack for ack in self.acks if ack[0] > end_offset]
            case fx.AbandonWaiters():
                self.acks = []
            case fx.StopFetching():
                self.fetcher.forget(KEY)
                self.asking = None
            case fx.AskEpochEnd():
                self.fetcher.forget(KEY)
                self.asking = effect
                self._ask()
            case fx.StartFetching(leader, _, _):
                self.asking = None
                if leader != self.fetching_from:
                    self.fetching_from = leader
                    self.fetcher = FollowerSession()
                    self.fetch_call = 0
                self.refused = False
                if self.state.fetch_offset is None:
                    self.fetcher.forget(KEY)
                self._place()
            case fx.TruncateAndStartAt(offset, _):
                disk.begin_at(offset)
                self.world.log_changed()
            case fx.MoveLogStart(offset):
                disk.log_start = offset
                if self.state.is_leader:
                    self.world.deleting(offset)
                    self._touch(wake=True)
            case fx.ReportDivergence(offset):
                self.world.diverged(self.broker_id, offset)
            case fx.ReplicaStopped():
                raise AssertionError("nothing is stopped in these schedules")
            case fx.Refuse() | fx.AnswerEpochEnd():
                pass  # Whoever fed the event answers.

    # --- following -------------------------------------------------------------------------------

    def _place(self) -> None:
        offset = self.state.fetch_offset
        if offset is not None:
            self.fetcher.place(KEY, self._position(offset))
        self._fetch()

    def _position(self, offset: int) -> FollowerPosition:
        state = self.state
        return FollowerPosition(state.leader_epoch, offset, partition_epoch=state.decision.partition_epoch)

    def _fetch(self) -> None:
        if self.fetch_call or not len(self.fetcher) or self.refused:
            return
        session, leader = self.fetcher, self.fetching_from
        epoch = session.positions[KEY].leader_epoch
        fetch = Fetch(self.broker_id, self.broker_epoch, session.next_request(), epoch, self.incarnation)

        def fetched(body: Body) -> None:
            if session is self.fetcher:
                self.fetch_call = 0
            self._fetched(session, leader, epoch, body)

        self.fetch_call = self.world.call(self.broker_id, leader, fetch, fetched)

    def _fetched(self, session: FollowerSession[str], leader: int, asked_under: int, body: Body) -> None:
        if isinstance(body, CallFailed):
            session.restart()
            self.refused = True  # Tried again with the next tick.
            return
        assert isinstance(body, FetchAnswer)
        if body.fault is not None:
            session.restart()
        else:
            session.answered(body.session_id)
        if body.refusal is not None:
            self.refused = session is self.fetcher
            session_key_known = KEY in session.positions
            if session_key_known:
                session.place(KEY, session.positions[KEY])
            self.feed(ev.FetchRefused(leader, asked_under, body.refusal, body.log_start_offset))
        elif body.found:
            self._batches(leader, body)
        if session is self.fetcher:
            self._fetch()

    def _batches(self, leader: int, body: FetchAnswer) -> None:
        spans = tuple(
            ev.BatchSpan(body.base_offset + index, 1, epoch) for index, (epoch, _) in enumerate(body.records)
        )
        answer = ev.BatchesReceived(
            leader, body.leader_epoch, spans, body.high_watermark, body.log_start_offset
        )
        self._batches_told(answer, body.records)

    def _batches_told(self, answer: ev.BatchesReceived, records: tuple[Record, ...]) -> None:
        self.feed(answer, records)
        if records and self.state.role is Role.FETCHING and self.state.fetch_offset is not None:
            self.fetcher.place(KEY, self._position(self.state.fetch_offset))

    def _ask(self) -> None:
        question = self.asking
        if question is None:
            return

        def answered(body: Body) -> None:
            if self.ask_call != call or self.asking is not question:
                return
            self.ask_call = 0
            if isinstance(body, EpochAnswer) and body.refusal is None:
                self.feed(ev.EpochEndReceived(question, body.epoch, body.end_offset))
            elif isinstance(body, EpochAnswer) and body.refusal is not None:
                self.feed(ev.FetchRefused(question.leader, question.leader_epoch, body.refusal))

        ask = AskEpoch(question.leader_epoch, question.epoch)
        call = self.world.call(self.broker_id, question.leader, ask, answered)
        self.ask_call = call

    # --- leading ---------------------------------------------------------------------------------

    def _touch(self, wake: bool) -> None:
        for session in self.sessions.touch(KEY):
            if wake and session in self.parked:
                self._answer_parked(session)

    def _answer_parked(self, session: LeaderSession[str]) -> None:
        envelope = self.parked.pop(session)
        self.world.answer(envelope, self._collect(session) or FetchAnswer(session.session_id))

    def _collect(self, session: LeaderSession[str]) -> FetchAnswer | None:
        state = self.state
        for key in session.touched():
            answer = session.examine(
                key,
                leader_epoch=state.leader_epoch if state.is_leader else -2,
                log_end_offset=state.log_end_offset,
                high_watermark=state.high_watermark,
                log_start_offset=state.log_start_offset,
            )
            if answer is None:
                continue
            fenced = is_of_another_epoch(answer.leader_epoch, state)
            if fenced or not state.is_leader:
                session.drop(key)
                refusal = Refusal.FENCED_LEADER_EPOCH if state.is_leader else Refusal.NOT_LEADER
                return self._refused(session, refusal)
            if answer.has_batches and answer.fetch_offset < state.log_start_offset:
                session.drop(key)
                return self._refused(session, Refusal.OFFSET_OUT_OF_RANGE)
            session.told(answer, state.high_watermark, state.log_start_offset)
            records = tuple(self.disk.log[answer.fetch_offset :]) if answer.has_batches else ()
            return FetchAnswer(
                session.session_id,
                found=True,
                leader_epoch=state.leader_epoch,
                high_watermark=state.high_watermark,
                base_offset=answer.fetch_offset,
                records=records,
                log_start_offset=state.log_start_offset,
            )
        return None

    def _refused(self, session: LeaderSession[str], refusal: Refusal) -> FetchAnswer:
        start = self.state.log_start_offset
        return FetchAnswer(session.session_id, refusal=refusal, log_start_offset=start)

    def _serve_fetch(self, envelope: Envelope, fetch: Fetch) -> None:
        request = fetch.request
        if request.session_id == 0:
            session = self.sessions.open(fetch.replica_id, fetch.broker_epoch)
        else:
            found = self.sessions.find(
                request.session_id, fetch.replica_id, fetch.broker_epoch, request.round
            )
            if isinstance(found, SessionFault):
                self.world.answer(envelope, FetchAnswer(0, fault=found))
                return
            session = found
        for key, position in session.receive(request.moved, request.forgotten):
            # The session must outlive what the event touches, so nothing of it is answered before.
            effects = self.feed(
                ev.FollowerFetched(
                    fetch.replica_id,
                    position.leader_epoch,
                    position.fetch_offset,
                    self.world.now_ms,
                    fetch.incarnation,
                    position.partition_epoch,
                )
            )
            for effect in effects:
                if isinstance(effect, fx.Refuse):
                    session.drop(key)
                    self.world.answer(envelope, self._refused(session, effect.refusal))
                    return
        answer = self._collect(session)
        if answer is None:
            self.parked[session] = envelope
        else:
            self.world.answer(envelope, answer)

    # --- what comes in ---------------------------------------------------------------------------

    def receive(self, envelope: Envelope) -> None:
        """A request, a watch or a notice from ZooKeeper reaches this life of the broker."""
        match envelope.body:
            case Fetch():
                self._serve_fetch(envelope, envelope.body)
            case AskEpoch(leader_epoch, epoch):
                (effect,) = self.feed(ev.EpochEndAsked(leader_epoch, epoch))
                if isinstance(effect, fx.AnswerEpochEnd):
                    end = effect.end
                    self.world.answer(envelope, EpochAnswer(leader_epoch, None, end.epoch, end.end_offset))
                else:
                    assert isinstance(effect, fx.Refuse)
                    self.world.answer(envelope, EpochAnswer(leader_epoch, effect.refusal))
            case Command():
                self._obey(envelope, envelope.body)
            case SessionEnded(session) if session == self.session:
                self.session = self.world.open_session()
                if self.broker_epoch != -1:
                    self._look_then(self._register_over)
            case SessionEnded() | Noticed():
                pass
            case _:
                raise AssertionError(envelope)

    def _obey(self, envelope: Envelope, command: Command) -> None:
        if self.broker_epoch == -1 or is_for_an_earlier_life(command, self.broker_epoch):
            # Another life is meant, or this one has not registered yet: the controller tries again.
            self.world.answer(envelope, CallFailed())
            return
        refusal = None
        for decision in command.decisions:
            refusal = refusal or self._decided(
                command.controller_epoch,
                decision.state,
                decision.replicas,
                decision.state.partition_epoch,
            )
        self.world.answer(envelope, CommandAnswer(refusal))

    def _decided(
        self,
        controller_epoch: int,
        decided: Stored | LeaderAndIsr,
        replicas: tuple[int, ...],
        partition_epoch: int,
        *,
        is_live: bool = True,
    ) -> Refusal | None:
        if (
            self.state.spent_epoch == UNTOLD_EPOCH
            and is_live
            and decided.leader_epoch == 0
            and self.disk.is_untouched
        ):
            # Hosting: the replica is new, since the first decision about the partition is made just now.
            self.state = Replica.opened(self.settings)
        now_ms = self.world.now_ms
        effects = self.feed(as_decided(controller_epoch, decided, replicas, partition_epoch, now_ms))
        refusals = [effect.refusal for effect in effects if isinstance(effect, fx.Refuse)]
        return refusals[0] if refusals else None

    def hear_again(self, which: int) -> None:
        """What the broker was told a while ago in this life reaches its core once more."""
        event, records = self.told[which]
        if isinstance(event, ev.BatchesReceived):
            self._batches_told(event, records)
        elif isinstance(event, ev.LeaderAndIsrDecided):
            self.feed(replace(event, now_ms=self.world.now_ms))
        else:
            self.feed(event)

    def produce(self, value: int, acks_all: bool = True) -> bool:
        """A producer's batch of one record; whether it was appended."""
        effects = self.feed(
            ev.ProduceArrived(1, acks_all, -1, self.world.now_ms), ((self.state.leader_epoch, value),)
        )
        return any(isinstance(effect, fx.Append) for effect in effects)

    def delete(self, before_offset: int) -> int | None:
        """An operator deletes records: where the log begins then, durably; None where it is refused."""
        effects = self.feed(ev.DeleteRecordsArrived(before_offset))
        if any(isinstance(effect, fx.Refuse) for effect in effects):
            return None
        self.write_log_start()
        return self.state.log_start_offset

    def write_log_start(self) -> None:
        """Write down where the log begins; a follower does so soon after it has heard."""
        self.disk.write_log_start()

    def fsync(self) -> None:
        """The log is put on disk to its end; a follower may then say so."""
        self.disk.sync()
        self.feed(ev.FsyncDone(self.disk.durable_end_offset))
        offset = self.state.fetch_offset
        known = self.fetcher.positions.get(KEY)
        # Also where nothing was named yet: it became a follower while its log was not on disk.
        if offset is not None and (known is None or offset != known.fetch_offset):
            self._place()

    def tick(self) -> None:
        """Time passed: deadlines, long polls that have waited enough, and what failed is tried again."""
        if self._deadline_reached():
            self.feed(ev.Ticked(self.world.now_ms))
        for session in list(self.parked):
            self._answer_parked(session)
        retries, self.retries = self.retries, []
        for retry in retries:
            retry()
        self.refused = False
        if self.asking is not None and self.ask_call == 0:
            self._ask()
        self._fetch()

    def _deadline_reached(self) -> bool:
        deadline = next_deadline_ms(self.state)
        return deadline is not None and deadline <= self.world.now_ms

    def checkpoint_high_watermark(self) -> None:
        """Write down the high watermark, as the shell does now and then."""
        self.disk.checkpoint(self.state.high_watermark)

    def with_settings(self, settings: ReplicaSettings) -> None:
        """For tests: other settings from the next life on."""
        self.settings = replace(settings, broker_id=self.broker_id)
