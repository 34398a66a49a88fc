"""The controller's shell: passes events to the core one at a time, and performs the core's effects.

Its duties: it performs every effect, in their order. It answers every store with an event about its outcome.
It repeats reads until ZooKeeper answers. It sends decisions to a broker until the broker has acknowledged
them or its registration has ended. It answers each request once. It awaits nothing between an event and its
effects, so that nothing reads an inconsistent state.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import uuid
from collections.abc import Callable, Container, Coroutine, Iterable
from itertools import islice
from time import perf_counter
from typing import Any, Final, TypeVar

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.addresses import HostPort
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.process.process_watcher import ProcessWatcher
from hightide_runtime.serving.channels import OpenChannel
from hightide_runtime.telemetry import span_kinds
from hightide_runtime.telemetry.tracing import Telemetry
from hightide_runtime.znodes.cluster_znodes import CONTROLLER_CANDIDATES, CandidateZnode, ControllerZnode
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.zookeeper.candidates import Candidate
from hightide_runtime.zookeeper.election import ElectedProcess
from hightide_runtime.zookeeper.session import SessionExpired, ZooKeeperError, ZooKeeperSession
from msgspec.structs import replace

from hightide_controller.brokers.broker_connections import BrokerConnections
from hightide_controller.brokers.broker_link import LinkCallbacks
from hightide_controller.contract import convert
from hightide_controller.contract.convert import Identity
from hightide_controller.core import effects as ef
from hightide_controller.core import events as ev
from hightide_controller.core.brokers.outbox import BrokerDelivery
from hightide_controller.core.state.cluster_state import ClusterState, Role
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requests import DeleteTopicRequested, ReassignmentsRequested
from hightide_controller.core.writes import StoreWrites
from hightide_controller.counters import Counters
from hightide_controller.inbox import Inbox
from hightide_controller.pending_requests import Answer, PendingRequests, RequestEvent
from hightide_controller.settings import ControllerSettings
from hightide_controller.tracing.traces import ControllerTraces
from hightide_controller.zookeeper.admin_reader import AdminRead, AdminReader
from hightide_controller.zookeeper.store import ActiveController, ControllerStore
from hightide_controller.zookeeper.watches import ZooKeeperWatches

__all__ = ["ControllerShell"]

_log = logging.getLogger(__name__)

CONTROLLER_SERVICE: Final = "hightide.v1.ControllerService"
_PAUSE_S: Final = 0.2
_REREAD_MAX: Final = 200
"""With each tick at most so many unreadable znodes of each kind are read again."""

A = TypeVar("A", bound=Answer)


class ControllerShell:
    """The shell of one controller process. It runs on the event loop's thread, and so do all its methods
    except `longest_owed_ms`."""

    def __init__(
        self,
        settings: ControllerSettings,
        identity: Identity,
        session: ZooKeeperSession,
        telemetry: Telemetry,
        clock: Clock,
        open_channel: OpenChannel,
    ) -> None:
        self._settings = settings
        self._clock = clock
        self._open_channel = open_channel
        self.identity = identity
        self.state = ClusterState(
            settings.controller_id,
            seed=secrets.randbelow(1_000),
            leader_imbalance_percent=settings.leader_imbalance_percent,
        )
        self.store = ControllerStore(session)
        self.active: ActiveController | None = None
        """The active controller at the last read of /controller."""
        self._campaigns = 0
        """The number of elections in which this process was a candidate."""
        self._unreadable_states: dict[TopicPartition, None] = {}
        """The partitions whose leaderAndISR the core asked for and that cannot be decoded. The values have no
        meaning."""
        self.failed = asyncio.Event()
        """Set if this controller cannot go on. Then main ends the process."""
        self.inbox = Inbox(clock)
        self.counters = Counters()
        self._requests = PendingRequests(self.inbox.put, self._active_elsewhere)
        self._tasks: set[asyncio.Task[None]] = set()
        self._peer: ProcessWatcher | None = None
        self._traces = ControllerTraces(
            identity.cluster_id, settings.controller_id, telemetry, clock, self.counters.failed_over
        )
        self._connections = BrokerConnections(
            LinkCallbacks(
                leader_and_isr=self._leader_and_isr,
                stop_replica=self._stop_replica,
                update_metadata=self._update_metadata,
                obeyed=self._traces.obeyed,
                acknowledged=self._acknowledged,
                fenced=lambda: self.inbox.put(ev.Fenced()),
                declined=self._declined,
                failed=self._failed_there,
                traceparent_of=self._traces.traceparent_of,
            ),
            self._broker_died,
            self._broker_answered_again,
            telemetry,
            clock,
            open_channel,
            settings.broker_rpc_timeout_ms,
            settings.broker_ping_timeout_ms,
        )
        self._watches = ZooKeeperWatches(
            session,
            self.store,
            on_controller=self._controller_read,
            on_brokers=self._brokers_read,
            on_topics=self._topics_read,
            on_admin=self._admin_read,
            on_states=lambda names: self._spawn(self._read_states(ef.ReadStates(tuple(sorted(names))))),
            on_session_lost=lambda: self.inbox.put(ev.SessionLost()),
            stand=Candidate(session, CONTROLLER_CANDIDATES, _candidate(identity)).stand,
        )

    @property
    def admin_reader(self) -> AdminReader:
        """The reader of the znodes below /admin."""
        return self._watches.admin_reader

    def longest_owed_ms(self) -> int:
        """The longest time in milliseconds for which a broker owes an acknowledgement. Metrics read it, on
        any thread."""
        return self._connections.longest_owed_ms()

    def start(self) -> None:
        """Start the tasks: read the active controller, and campaign if there is none. Called when the server
        listens."""
        self._watches.start()
        self._spawn(self._run())
        self._spawn(self._tick())
        self._spawn(self._balance())

    async def close(self) -> None:
        """Stop all tasks and links. The caller closes the session afterwards."""
        for task in list(self._tasks):
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        await self._watches.close()
        if self._peer is not None:
            self._peer.close()
        await self._connections.close()
        self._traces.finish_all()

    # ---- events in

    async def _run(self) -> None:
        while True:
            event, arrived_us = await self.inbox.get()
            began = perf_counter()
            try:
                self._take(event, arrived_us)
            except Exception:  # noqa: BLE001 - the top of a task
                # A fault of the program. The state may be inconsistent, so main ends the process, and a
                # standby takes over, which reads everything again.
                _log.exception("while handling %s", type(event).__name__)
                self.failed.set()
                return
            self.counters.event_s.record(perf_counter() - began)

    def _take(self, event: ev.Event, arrived_us: int) -> None:
        was_active = self.state.role is Role.ACTIVE
        self.counters.before(self.state, event)
        self.state, effects = self._traces.record(self.state, event, arrived_us)
        self._connections.reconcile(self.state.live_brokers(), self.state.dead_brokers())
        if self.state.role is Role.ACTIVE and not was_active:
            _log.info(
                "controller %d is active, controller epoch %d: %d brokers, %d topics, %d partitions",
                *(self.identity.controller_id, self.state.controller_epoch, len(self.state.brokers)),
                *(len(self.state.topics), len(self.state.partitions)),
            )
            self._watches.activate(set(self.state.topics))
        stood_back = isinstance(event, ev.Elected) and self.state.role is not Role.ACTIVE
        if isinstance(event, ev.CampaignLost) or stood_back:
            # /controller has another winner now, or none, or this process, which then gives it up.
            self._watches.controller.mark()
        for effect in effects:
            self._perform(effect)

    async def _tick(self) -> None:
        while True:
            await asyncio.sleep(self._settings.refresh_interval_ms / 1000)
            if self._watches.connected.is_set():
                self.inbox.put(ev.Ticked())
                self._check_silence()
                self._reread_unreadable()

    def _check_silence(self) -> None:
        """Report brokers that have a session and acknowledged nothing for a session timeout: they should not
        lead."""
        for news in self._connections.silences(self._settings.zookeeper_session_timeout_ms):
            if isinstance(news, ev.BrokerSilent):
                news = replace(news, cause=self._traces.causes.new("broker_silent"))
            self.inbox.put(news)

    def _reread_unreadable(self) -> None:
        """Read unreadable znodes below /brokers/topics again, since no watch fires when an operator corrects
        one."""
        if self.state.role is not Role.ACTIVE:
            return
        if states := tuple(islice(self._unreadable_states, _REREAD_MAX)):
            self._spawn(self._read_states(ef.ReadStates(states)))
        self._watches.look_at_topics_again(self.state.topics, _REREAD_MAX)

    def _note_unreadable(self, requested: Iterable[TopicPartition], read: Container[TopicPartition]) -> None:
        for name in requested:
            if name in read:
                self._unreadable_states.pop(name, None)
            else:
                self._unreadable_states[name] = None

    async def _balance(self) -> None:
        """Check from time to time that preferred replicas lead. V3 has a preferred replica, but no rule about
        when it leads."""
        while self._settings.leader_rebalance_interval_ms:
            await asyncio.sleep(self._settings.leader_rebalance_interval_ms / 1000)
            self.inbox.put(ev.BalanceDue())

    def _brokers_read(self, event: ev.BrokersChanged) -> None:
        cause = self._traces.failovers.expect("session_ended", self._clock.wall_us())
        self.inbox.put(replace(event, cause=cause))
        self._complain()

    def _topics_read(self, event: ev.TopicsChanged) -> None:
        self.inbox.put(event)
        self._complain()

    def _admin_read(self, read: AdminRead) -> None:
        self.inbox.put(ev.AdminChanged(read.admin))
        if read.configs:
            self.inbox.put(ev.ConfigsChanged(read.configs))

    def _complain(self) -> None:
        """Pass the store's complaints about unreadable znodes to the core, which shows them to operators."""
        if complaints := self.store.take_complaints():
            self.inbox.put(ev.AdminChanged(ev.AdminZnodes(complaints=complaints)))

    def _broker_died(self, broker: ev.Broker, broke_at_us: int, reason: str) -> None:
        cause = self._traces.failovers.expect(reason, broke_at_us)
        self.inbox.put(ev.BrokerProcessDied(broker.broker_id, broker.broker_epoch, cause))

    def _broker_answered_again(self, broker: ev.Broker) -> None:
        cause = self._traces.causes.new("process_answers")
        self.inbox.put(ev.BrokerProcessAlive(broker.broker_id, broker.broker_epoch, cause))

    async def _controller_read(self, active: ActiveController | None) -> None:
        """Handle a read of /controller. A standby also watches the process of the active controller."""
        if active is not None and active.is_mine and self.state.role is Role.STANDBY:
            # This process was elected, but a failure kept it from becoming active. Without this no other one
            # could be elected.
            await self.store.abdicate()
            self._watches.controller.mark()
            return
        before, self.active = self.active, active
        if self._peer is not None:
            self._peer.close()
            self._peer = None
        if active is None:
            cause = self._traces.failovers.expect_takeover(before, self._clock.wall_us())
            self.inbox.put(ev.ControllerSeen(None, cause=cause))
            return
        znode = active.znode
        self.inbox.put(ev.ControllerSeen(znode.controller_id, znode.controller_epoch))
        if active.is_mine:
            return
        _log.info("controller %d at %s:%d is active", znode.controller_id, znode.host, znode.port)
        address = HostPort(znode.host, znode.port)
        if address == HostPort(self.identity.host, self.identity.port):
            # This process has the port now, so the znode is from an earlier run of it.
            self._controller_died(active, self._clock.wall_us())
            return
        self._watch_peer(address, lambda broke_at_us: self._controller_died(active, broke_at_us))

    def _watch_peer(self, address: HostPort, on_death: Callable[[int], None]) -> None:
        self._peer = ProcessWatcher(address, CONTROLLER_SERVICE, self._clock, self._open_channel, on_death)

    def _controller_died(self, active: ActiveController, broke_at_us: int) -> None:
        """Handle the death of the active controller's process. Its session and its znode still exist for a
        while."""
        cause = self._traces.failovers.expect_takeover(active, broke_at_us)
        znode = active.znode
        event = ev.ControllerSeen(znode.controller_id, znode.controller_epoch, process_died=True, cause=cause)
        self.inbox.put(event)

    def _acknowledged(self, broker: ev.Broker, sequence: int) -> None:
        self.inbox.put(ev.BrokerAcknowledged(broker.broker_id, broker.broker_epoch, sequence))

    def _declined(self, broker: ev.Broker, decision: ef.Decision) -> None:
        self.inbox.put(
            ev.LeadershipDeclined(
                decision.name, broker.broker_id, broker.broker_epoch, decision.state.leader_epoch
            )
        )

    def _failed_there(self, broker: ev.Broker, decisions: tuple[ef.Decision, ...]) -> None:
        replicas = tuple((decision.topic_id, decision.name.partition) for decision in decisions)
        cause = self._traces.causes.new("replicas_failed")
        self.inbox.put(ev.ReplicasFailed(broker.broker_id, broker.broker_epoch, replicas, cause))

    # ---- effects out

    def _perform(self, effect: ef.Effect) -> None:
        match effect:
            case ef.StoreLeaderAndIsr():
                self._store_leader_and_isr(effect)
            case ef.SendLeaderAndIsr() | ef.SendStopReplica() | ef.SendUpdateMetadata():
                self._connections.put(effect)
            case StoreWrites():
                self._spawn(self._store_writes(effect))
            case ef.ReadTopics():
                self._spawn(self._read_topics(effect))
            case ef.WatchStates():
                self._watches.watch_states(effect.names)
            case ef.ReadStates():
                self._spawn(self._read_states(effect))
            case ef.StoreTopic():
                self._spawn(self._store_topic(effect))
            case ef.Campaign():
                self._campaigns += 1
                self._spawn(self._campaign(effect, self._campaigns))
            case ef.Resign():
                self._watches.deactivate()
                self._unreadable_states.clear()
            case ef.StepDown():
                self._spawn(self._step_down(effect))
            case ef.LogWarning():
                _log.warning("%s", effect.message)
            case (
                ef.AnswerCreateTopic()
                | ef.AnswerControlledShutdown()
                | ef.AnswerTopic()
                | ef.AnswerPartitions()
                | ef.AnswerElections()
                | ef.AnswerDone()
                | ef.AnswerResigned()
            ):
                self._requests.answer(effect)
            case ef.RefuseRequest():
                self._requests.refuse(effect)

    def _store_leader_and_isr(self, effect: ef.StoreLeaderAndIsr) -> None:
        outcome = self.store.submit(effect, self._traces.traceparent_of(effect.cause))

        def answered(done: asyncio.Future[ev.Event]) -> None:
            if not done.cancelled():
                self.inbox.put(done.result())

        outcome.add_done_callback(answered)

    async def _read_states(self, effect: ef.ReadStates) -> None:
        epoch = self.state.controller_epoch
        while self.state.role is Role.ACTIVE and self.state.controller_epoch == epoch:
            await self._watches.connected.wait()
            try:
                states = await self.store.read_states(effect.names)
            except ZooKeeperError as error:
                _log.warning("reading %d partitions is tried again: %s", len(effect.names), error)
                await asyncio.sleep(_PAUSE_S)
                continue
            self._note_unreadable(effect.names, states)
            self.inbox.put(ev.StatesRead(states, effect.cause))
            self._complain()
            return

    async def _store_writes(self, effect: StoreWrites) -> None:
        event = await self.store.store_writes(effect, self._traces.traceparent_of(effect.cause))
        self.inbox.put(event)
        await self.store.tidy(effect.writes, event)

    async def _read_topics(self, effect: ef.ReadTopics) -> None:
        epoch = self.state.controller_epoch
        while self.state.role is Role.ACTIVE and self.state.controller_epoch == epoch:
            await self._watches.connected.wait()
            try:
                event = await self.store.read_everything_about(effect.names, self.admin_reader)
            except ZooKeeperError as error:
                _log.warning("reading %d topics is tried again: %s", len(effect.names), error)
                await asyncio.sleep(_PAUSE_S)
                continue
            for topic in event.topics.values():
                if topic is not None:
                    numbers = range(len(topic.assignment))
                    names = [TopicPartition(topic.name, number) for number in numbers]
                    self._note_unreadable(names, event.states)
            self.inbox.put(replace(event, cause=effect.cause))
            self._complain()
            return

    async def _store_topic(self, effect: ef.StoreTopic) -> None:
        try:
            event = await self.store.store_topic(effect)
        except Exception:  # noqa: BLE001 - the top of a task
            # A request that always fails must not stop other requests, nor end one controller after the
            # other.
            _log.exception("topic %s cannot be created", effect.topic.name)
            event = ev.TopicStoreRefused(effect.request_id, exists=False)
        self.inbox.put(event)

    async def _campaign(self, effect: ef.Campaign, number: int) -> None:
        try:
            elected = await self._elected(effect)
        except ZooKeeperError as error:
            _log.warning("the election is tried again: %s", error)
            elected = None
        except ZnodeGarbage as error:
            _log.error("%s; no controller can be elected until an operator corrects it", error)
            elected = None
            await asyncio.sleep(_PAUSE_S)
        except Exception:  # noqa: BLE001 - the top of a task
            # No fault of an election should end one controller after the other.
            _log.exception("the election failed")
            elected = None
            await asyncio.sleep(_PAUSE_S)
        # The core does not wait for an earlier campaign, if it has begun another one meanwhile.
        if number == self._campaigns:
            self.inbox.put(ev.CampaignLost() if elected is None else elected)

    async def _step_down(self, effect: ef.StepDown) -> None:
        while True:
            await self._watches.connected.wait()
            try:
                await self.store.abdicate()
                break
            except SessionExpired:
                break  # The znode has vanished with the session.
            except ZooKeeperError as error:
                _log.warning("giving /controller up is tried again: %s", error)
                await asyncio.sleep(_PAUSE_S)
        self.inbox.put(ev.SteppedDown(effect.request_id, effect.controller_epoch))
        await asyncio.sleep(self._settings.resignation_rest_ms / 1000)
        self.inbox.put(ev.Rested())

    async def _elected(self, effect: ef.Campaign) -> ev.Elected | None:
        me = self.identity
        candidate = ElectedProcess(
            me.controller_id,
            me.host,
            me.port,
            external_host=me.external_host,
            external_port=me.external_port,
        )
        epoch = await self.store.elect(candidate, effect.stale_controller_epoch)
        if epoch is None:
            return None
        elected_at_us = self._clock.wall_us()
        snapshot = await self.store.read_snapshot(self.admin_reader)
        await self._traces.failovers.elected(effect.cause, elected_at_us, snapshot, self.store)
        return ev.Elected(epoch.epoch, epoch.version, snapshot, effect.cause)

    def _leader_and_isr(self, broker_epoch: int, delivery: BrokerDelivery) -> Any:
        return convert.leader_and_isr_out(
            self.state, self.identity, broker_epoch, delivery.decisions.values()
        )

    def _stop_replica(self, broker_epoch: int, delivery: BrokerDelivery) -> Any:
        return convert.stop_replica_out(self.state, self.identity, broker_epoch, delivery.stops.values())

    def _update_metadata(self, broker_epoch: int, delivery: BrokerDelivery) -> Any:
        names = None if delivery.full else delivery.metadata
        return convert.update_metadata_out(
            self.state, self.identity, broker_epoch, names, delivery.deleted_topic_ids
        )

    # ---- requests

    async def create_topic(self, request: Any) -> ef.AnswerCreateTopic:
        """Carry out CreateTopic. The servicer calls it. Raises ServiceError."""
        event = convert.create_topic_in(request, self.take_request_id(), uuid.uuid4().hex)
        cause = self._traces.request(span_kinds.TOPIC_CREATION, "CreateTopic")
        event = replace(event, cause=cause)
        try:
            return await self.ask(event, ef.AnswerCreateTopic, self._settings.create_topic_timeout_ms)
        finally:
            self._traces.answered(cause)

    async def reassign(self, event: ReassignmentsRequested) -> ef.AnswerPartitions:
        """Carry out ReassignPartitions. The servicer calls it. Raises ServiceError."""
        cause = self._traces.request(span_kinds.REASSIGNMENT, "ReassignPartitions")
        try:
            return await self.ask(replace(event, cause=cause), ef.AnswerPartitions)
        finally:
            self._traces.answered(cause)

    async def delete_topic(self, event: DeleteTopicRequested) -> ef.AnswerTopic:
        """Carry out DeleteTopic. The servicer calls it. Raises ServiceError."""
        cause = self._traces.request(span_kinds.TOPIC_DELETION, "DeleteTopic")
        try:
            return await self.ask(replace(event, cause=cause), ef.AnswerTopic)
        finally:
            self._traces.answered(cause)

    async def controlled_shutdown(self, broker_id: int, broker_epoch: int) -> int:
        """Carry out ControlledShutdown. Returns the number of partitions that the broker still leads. Raises
        ServiceError."""
        cause = self._traces.failovers.expect("controlled_shutdown", self._clock.wall_us())
        event = ev.ControlledShutdownRequested(self.take_request_id(), broker_id, broker_epoch, cause)
        timeout_ms = self._settings.controlled_shutdown_timeout_ms
        return (await self.ask(event, ef.AnswerControlledShutdown, timeout_ms)).remaining_leader_count

    async def resign(self, controller_epoch: int) -> ef.AnswerResigned:
        """Carry out ResignController. Returns when /controller is free. Raises ServiceError."""
        event = ev.ResignationRequested(self.take_request_id(), controller_epoch)
        timeout_ms = self._settings.request_timeout_ms
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                return await self.ask(event, ef.AnswerResigned)
        except TimeoutError:
            raise ServiceError(
                ErrorCode.ERROR_CODE_TIMED_OUT,
                "this controller is not active any more, but ZooKeeper has not removed its znode within "
                f"{timeout_ms} ms; describe the cluster to see which controller is active",
            ) from None

    def replicas_failed(self, event: ev.ReplicasFailed | ev.ReplicasDamaged) -> None:
        """Take a ReportFailedReplicas. Raises ServiceError."""
        self.require_active()
        cause = self._traces.causes.new("replicas_failed")
        self.inbox.put(replace(event, cause=cause))

    def require_active(self) -> None:
        """Raise ServiceError (NOT_CONTROLLER), which names the active controller, unless this one is
        active."""
        if self.state.role is not Role.ACTIVE:
            raise convert.not_controller(self._active_elsewhere())

    def partition_count_of(self, topic: str) -> int:
        """How many partitions a topic has; 0 if it is not known. Raises ServiceError (NOT_CONTROLLER)."""
        self.require_active()
        found = self.state.topics.get(topic)
        return 0 if found is None else len(found.assignment)

    def take_request_id(self) -> int:
        """A new id for a request to the core."""
        return self._requests.take_id()

    async def ask(self, event: RequestEvent, kind: type[A], timeout_ms: int | None = None) -> A:
        """Pass a request to the core, and wait for its answer of this kind. Raises ServiceError."""
        self.require_active()
        return await self._requests.ask(event, kind, timeout_ms or self._settings.request_timeout_ms)

    def _active_elsewhere(self) -> ControllerZnode | None:
        if self.active is None or self.active.is_mine or self.active.znode.controller_id < 0:
            return None
        return self.active.znode

    # ---- tasks

    def _spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        """Run a task. If it fails, main ends the process."""
        try:
            await work
        except Exception:  # noqa: BLE001 - the top of a task
            # The core would wait for its outcome without end. As in `_run`, a standby takes over.
            _log.exception("a task of this controller failed")
            self.failed.set()


def _candidate(identity: Identity) -> CandidateZnode:
    return CandidateZnode(
        identity.controller_id, identity.host, identity.port, identity.external_host, identity.external_port
    )
