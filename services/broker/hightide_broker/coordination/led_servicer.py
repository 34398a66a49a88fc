"""The RPCs of ControllerService, answered by any broker of a cluster without a controller.

Orders go through `LeadersShell.ask`, which makes this broker the admin of V2's text; questions are reads of
ZooKeeper. What only a controller can do is refused with NO_CONTROLLER.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import secrets
import uuid
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from typing import Any, Final, NoReturn, TypeVar

from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1 import controller_service_pb2_grpc as controller_grpc
from hightide.v1.errors_pb2 import ErrorCode
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_leaders.core.queues import instead_of_starts
from hightide_leaders.core.values import NO_LEADER, PartitionNodes, TopicPartition
from hightide_leaders.core.writes import Enqueue
from hightide_leaders.shell import LeadersShell
from hightide_leaders.znode_operations import operations_of
from hightide_runtime.access.call_access import current_access
from hightide_runtime.cluster_settings.acl_requests import AclRequests
from hightide_runtime.cluster_settings.cluster_setting import ANY_BROKER, Authority, ClusterSetting
from hightide_runtime.cluster_settings.quota_requests import QuotaRequests
from hightide_runtime.cluster_settings.servicer import ClusterSettingsServicer
from hightide_runtime.errors import ServiceError
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.serving.server import Service
from hightide_runtime.topics.topic_configs import configs_of_new_topic
from hightide_runtime.znodes.admin_znodes import ReassignmentThrottleZnode
from hightide_runtime.znodes.cluster_znodes import BROKER_IDS, TOPICS, TopicIdZnode
from hightide_runtime.znodes.leaders_znodes import DrainedZnode, LeaderZnode, LedTopicZnode
from hightide_runtime.znodes.topic_names import is_legal_topic_name
from hightide_runtime.zookeeper.registrations import read_registrations
from hightide_runtime.zookeeper.session import (
    Check,
    NodeExists,
    SessionState,
    SessionStateChanged,
    WatchFired,
    ZooKeeperError,
    ZooKeeperSession,
)

from hightide_broker.cluster.metadata import EndpointView
from hightide_broker.coordination import led_descriptions as descriptions
from hightide_broker.coordination import led_topic_checks as checks
from hightide_broker.coordination.led_cluster import LedCluster, log_garbage
from hightide_broker.coordination.led_outcomes import check, fault, fault_of, no_controller

CONTROLLER_SERVICE: Final = "hightide.v1.ControllerService"
LED_WITHIN_S: Final = 10.0
"""How long an answer waits until the partitions that it names are led."""
PARTITIONS_MAX: Final = 10_000
"""The partitions in one request (controller_service.proto)."""
ASKED_AT_ONCE: Final = 50
"""The partitions of one request that are at it together."""
AnswerT = TypeVar("AnswerT")
LedTopic = tuple[LedTopicZnode, dict[int, PartitionNodes]]


def controller_service(servicer: LeadersControllerServicer) -> Service:
    """ControllerService, for the broker's server."""
    add = controller_grpc.add_ControllerServiceServicer_to_server
    return Service(CONTROLLER_SERVICE, servicer, add, plane=Plane.CONTROL)


def _answers(rpc: Callable[..., Awaitable[AnswerT]]) -> Callable[..., Awaitable[AnswerT]]:
    """An RPC that asks ZooKeeper, which may not answer."""

    @functools.wraps(rpc)
    async def answering(*arguments: Any) -> AnswerT:
        try:
            return await rpc(*arguments)
        except ZooKeeperError as error:
            raise ServiceError(
                ErrorCode.ERROR_CODE_ZOOKEEPER_UNAVAILABLE, f"ZooKeeper does not answer, try again: {error}"
            ) from error

    return answering


class LeadersControllerServicer(ClusterSettingsServicer):
    """Served by every broker of a cluster without a controller."""

    def __init__(
        self,
        shell: LeadersShell,
        session: ZooKeeperSession,
        cluster: LedCluster,
        cluster_id: str,
        me: EndpointView,
        acls: AclRequests,
    ) -> None:
        super().__init__(acls, QuotaRequests(session, ANY_BROKER))
        self._drained = ClusterSetting(
            session, DrainedZnode.path(), DrainedZnode.decode, DrainedZnode.encode, DrainedZnode(),
            ANY_BROKER, "drained brokers", "correct or delete the znode",
        )  # fmt: skip
        self._shell = shell
        self._session = session
        self._cluster = cluster
        self._cluster_id = cluster_id
        self._me = me
        self._next_place = secrets.randbelow(1 << 16)
        """Where the next balanced partitions begin: different brokers begin at different ones."""

    # --- topics ----------------------------------------------------------------------------------

    @_answers
    async def CreateTopic(
        self, request: controller_pb2.CreateTopicRequest, context: Any
    ) -> controller_pb2.CreateTopicResponse:
        """Create a topic and wait until its partitions have leaders."""
        checks.check_name(request.topic)
        assignment = checks.assignment_of_new(request, await self._alive(), self._next_place)
        replicas_min = min(map(len, assignment))
        checks.check_configs(request.configs, replicas_min)
        configs = configs_of_new_topic(request.configs, replicas_min)
        topic_id = uuid.uuid4()
        if request.validate_only:
            if request.topic in await self._cluster.read_topics([request.topic]):
                check(Outcome.TOPIC_ALREADY_EXISTS, f"topic {request.topic!r}")
            proposed = descriptions.proposed_out(request.topic, topic_id.bytes, assignment, configs)
            return controller_pb2.CreateTopicResponse(topic=proposed)
        self._next_place += len(assignment)
        settings = tuple(sorted(configs.items()))
        outcome = await self._shell.ask(
            lambda number: ev.AdditionRequested(number, request.topic, topic_id.hex, assignment, settings)
        )
        if outcome is Outcome.TOPIC_BEING_CREATED:
            outcome = Outcome.TOPIC_ALREADY_EXISTS
        check(outcome, f"topic {request.topic!r}")
        await self._until_led(request.topic, range(len(assignment)))
        return controller_pb2.CreateTopicResponse(topic=await self._described(request.topic))

    @_answers
    async def DeleteTopic(
        self, request: controller_pb2.DeleteTopicRequest, context: Any
    ) -> controller_pb2.DeleteTopicResponse:
        """Delete a topic and its data, and wait until its name is free."""
        topic, nodes = await self._topic(request.topic, deletes=True)
        checks.check_topic_id(request.topic, topic.topic_id, request.topic_id)
        described = descriptions.topic_out(request.topic, topic, nodes)
        holders = {broker_id for each in nodes.values() for broker_id in each.assigned}
        absent = sorted(holders - set(await self._alive()))
        if not request.validate_only:
            topic_id = topic.topic_id.hex()
            outcome = await self._shell.ask(
                lambda number: ev.DeletionRequested(number, request.topic, topic_id)
            )
            check(outcome, f"topic {request.topic!r}")
        return controller_pb2.DeleteTopicResponse(topic=described, absent_brokers=absent)

    @_answers
    async def AddPartitions(
        self, request: controller_pb2.AddPartitionsRequest, context: Any
    ) -> controller_pb2.AddPartitionsResponse:
        """Grow a topic and wait until the new partitions have leaders."""
        topic, nodes = await self._topic(request.topic)
        count, factor = topic.partition_count, len(nodes[0].replicas) if 0 in nodes else 1
        alive = await self._alive()
        added = checks.assignment_of_growth(request, count, factor, alive, self._next_place)
        checks.check_configs(topic.configs, min(map(len, added)))
        if request.validate_only:
            answer = descriptions.topic_out(request.topic, topic, nodes)
            proposed = descriptions.proposed_out(request.topic, topic.topic_id, added, {}, count)
            answer.partitions.extend(proposed.partitions)
            return controller_pb2.AddPartitionsResponse(topic=answer)
        self._next_place += len(added)
        outcome = await self._shell.ask(
            lambda number: ev.AdditionRequested(number, request.topic, "", added, first=count)
        )
        check(outcome, f"topic {request.topic!r}")
        await self._until_led(request.topic, range(count, request.partition_count))
        return controller_pb2.AddPartitionsResponse(topic=await self._described(request.topic))

    @_answers
    async def RemovePartitions(
        self, request: controller_pb2.RemovePartitionsRequest, context: Any
    ) -> controller_pb2.RemovePartitionsResponse:
        """Shrink a topic: the partitions with the highest numbers go."""
        topic, nodes = await self._topic(request.topic)
        checks.check_topic_id(request.topic, topic.topic_id, request.topic_id)
        keep, rest = request.partition_count, nodes.keys() - descriptions.shown(topic, nodes)
        if keep != topic.partition_count or topic.attempt is not None or not rest:
            checks.check_shrink(request.topic, topic.partition_count, keep)
        # Else a broker that did the same died, and the rest of it is done now.
        moving = [number for number, each in nodes.items() if number >= keep and descriptions.is_moving(each)]
        if moving:
            check(Outcome.REASSIGNMENT_IN_PROGRESS, f"{request.topic}-{min(moving)}")
        if request.validate_only:
            after = descriptions.topic_out(request.topic, replace(topic, partition_count=keep), nodes)
            return controller_pb2.RemovePartitionsResponse(topic=after)
        topic_id = topic.topic_id.hex()
        outcome = await self._shell.ask(
            lambda number: ev.DeletionRequested(number, request.topic, topic_id, keep)
        )
        check(outcome, f"topic {request.topic!r}")
        return controller_pb2.RemovePartitionsResponse(topic=await self._described(request.topic))

    @_answers
    async def AlterTopicConfig(
        self, request: controller_pb2.AlterTopicConfigRequest, context: Any
    ) -> controller_pb2.AlterTopicConfigResponse:
        """Change settings of a topic. Its brokers hear of them from ZooKeeper within moments."""
        topic, nodes = await self._topic(request.topic)
        replicas_min = min((len(each.replicas) for each in nodes.values() if each.replicas), default=1)

        def changed(before: LedTopicZnode | None) -> LedTopicZnode:
            if before is None:
                raise unknown
            after = checks.altered_configs(before.configs, request.set, request.reset, replicas_min)
            return replace(before, configs=after)

        # The decider is not asked: it decides nothing by settings, and a growth goes on from what is there.
        unknown = ServiceError(ErrorCode.ERROR_CODE_UNKNOWN_TOPIC, f"topic {request.topic!r} does not exist")
        marker = Check(TopicIdZnode.path(topic.topic_id), -1)
        setting: ClusterSetting[LedTopicZnode | None] = ClusterSetting(
            self._session, LedTopicZnode.path(request.topic), LedTopicZnode.decode,
            lambda after: b"" if after is None else after.encode(), None,
            Authority(lambda: (marker,), lambda: unknown), f"topic {request.topic!r}", "correct the znode",
        )  # fmt: skip
        after = await setting.alter(changed, validate_only=request.validate_only)
        return controller_pb2.AlterTopicConfigResponse(configs=after.configs if after is not None else {})

    @_answers
    async def DescribeTopics(
        self, request: controller_pb2.DescribeTopicsRequest, context: Any
    ) -> controller_pb2.DescribeTopicsResponse:
        """Read topics from ZooKeeper. A topic that the caller may not know of is unknown."""
        access = current_access()
        names = list(dict.fromkeys(request.topics)) or await self._session.children(TOPICS)
        known = [name for name in names if access is None or access.sees(name)]
        found = await self._cluster.read_topics(known)
        answer = controller_pb2.DescribeTopicsResponse()
        for name in names:
            if name in found and found[name][0].partition_count:
                answer.topics.append(descriptions.topic_out(name, *found[name]))
            elif request.topics:
                answer.topics.append(descriptions.unknown_out(name))
        return answer

    @_answers
    async def DescribeCluster(
        self, request: controller_pb2.DescribeClusterRequest, context: Any
    ) -> controller_pb2.DescribeClusterResponse:
        """Describe the brokers and what is not well; in the controller's place, this broker."""
        return await descriptions.described_cluster(self._session, self._cluster, self._cluster_id, self._me)

    # --- partitions ------------------------------------------------------------------------------

    @_answers
    async def ReassignPartitions(
        self, request: controller_pb2.ReassignPartitionsRequest, context: Any
    ) -> controller_pb2.ReassignPartitionsResponse:
        """Ask the leaders of partitions to move them."""
        _check_count(len(request.moves))
        if request.validate_only:
            alive = set(await self._alive())
            results = [await self._would_move(move, alive) for move in request.moves]
            return controller_pb2.ReassignPartitionsResponse(results=results)
        if request.throttle_bytes_per_s:
            await self._limit(request.throttle_bytes_per_s)

        def asked(move: controller_pb2.PartitionMove) -> Callable[[int], ev.Event]:
            name, replicas = _name_in(move.partition), tuple(move.replicas)
            return lambda number: ev.ReassignmentRequested(number, name, replicas)

        names = [_name_in(move.partition) for move in request.moves]
        results = await self._ask_each(names, map(asked, request.moves))
        return controller_pb2.ReassignPartitionsResponse(results=results)

    @_answers
    async def CancelReassignments(
        self, request: controller_pb2.CancelReassignmentsRequest, context: Any
    ) -> controller_pb2.CancelReassignmentsResponse:
        """Take moves back."""
        names = await self._named(request.partitions, descriptions.is_moving)
        if request.validate_only:
            found = await self._cluster.read_partitions([n for n in names if is_legal_topic_name(n.topic)])
            results = []
            for name in names:
                nodes = found[name.topic][1].get(name.partition) if name.topic in found else None
                is_moving = nodes is not None and descriptions.is_moving(nodes)
                results.append(_result(name, Outcome.DONE if is_moving else Outcome.NO_REASSIGNMENT))
            return controller_pb2.CancelReassignmentsResponse(results=results)

        def asked(name: TopicPartition) -> Callable[[int], ev.Event]:
            return lambda number: ev.ReassignmentRequested(number, name, None)

        results = await self._ask_each(names, map(asked, names))
        return controller_pb2.CancelReassignmentsResponse(results=results)

    @_answers
    async def ListReassignments(
        self, request: controller_pb2.ListReassignmentsRequest, context: Any
    ) -> controller_pb2.ListReassignmentsResponse:
        """List the moves that are not finished."""
        asked = set(map(_name_in, request.partitions))
        topics = sorted({name.topic for name in asked} or await self._session.children(TOPICS))
        found = await self._cluster.read_topics(topics)
        moves = [
            descriptions.move_out(TopicPartition(topic, number), found[topic][0], nodes)
            for topic in topics
            if topic in found
            for number, nodes in sorted(found[topic][1].items())
            if descriptions.is_moving(nodes) and (not asked or TopicPartition(topic, number) in asked)
        ]
        throttle = await self._cluster.read_throttle() or 0
        return controller_pb2.ListReassignmentsResponse(reassignments=moves, throttle_bytes_per_s=throttle)

    @_answers
    async def AlterReassignmentThrottle(
        self, request: controller_pb2.AlterReassignmentThrottleRequest, context: Any
    ) -> controller_pb2.AlterReassignmentThrottleResponse:
        """Change the speed limit of moves; brokers hear of it from ZooKeeper."""
        await self._limit(request.throttle_bytes_per_s)
        return controller_pb2.AlterReassignmentThrottleResponse()

    @_answers
    async def ElectLeaders(
        self, request: controller_pb2.ElectLeadersRequest, context: Any
    ) -> controller_pb2.ElectLeadersResponse:
        """Elect leaders at the request of an operator."""
        if request.kind not in (controller_pb2.ELECTION_KIND_PREFERRED, controller_pb2.ELECTION_KIND_UNCLEAN):
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"election kind {request.kind} is not known; it is PREFERRED (1) or UNCLEAN (2)",
            )
        unclean = request.kind == controller_pb2.ELECTION_KIND_UNCLEAN
        if unclean and not request.partitions:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST, "name the partitions whose records may be lost"
            )
        names = await self._named(request.partitions, _has_other_leader)
        before = await self._states(names)
        if request.validate_only:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                "an election without a controller cannot be tried out; leave out validate_only",
            )

        def asked(name: TopicPartition) -> Callable[[int], ev.Event]:
            return lambda number: ev.ElectionRequested(number, name, unclean)

        results = await self._ask_each(names, map(asked, names))
        held = [name for name, result in zip(names, results, strict=True) if not result.error_code]
        for topic in {name.topic for name in held}:
            await self._until_led(topic, [name.partition for name in held if name.topic == topic])
        after = await self._states(names)
        elections = [
            _election_out(result, before.get(name), after.get(name))
            for name, result in zip(names, results, strict=True)
        ]
        return controller_pb2.ElectLeadersResponse(elections=elections)

    @_answers
    async def ControlledShutdown(
        self, request: controller_pb2.ControlledShutdownRequest, context: Any
    ) -> controller_pb2.ControlledShutdownResponse:
        """Drain a broker, at the request of an operator: it leads nothing in this life that others can lead.
        One that stops gives up its leader znodes itself."""
        broker_id = request.broker_id
        registrations = await read_registrations(self._session, log_garbage, lambda path: None, watch=False)
        found = next((each for each in registrations if each.broker_id == broker_id), None)
        if found is None:
            raise ServiceError(
                ErrorCode.ERROR_CODE_UNKNOWN_BROKER,
                f"broker {broker_id} is not alive; see `hightide broker ls`",
            )
        if request.broker_epoch != found.czxid:
            raise ServiceError(
                ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH,
                f"broker {broker_id} has broker epoch {found.czxid}, not {request.broker_epoch}; it has "
                "registered anew",
            )
        life = {broker_id: max(0, found.znode.incarnation)}
        await self._drained.alter(
            lambda before: DrainedZnode(tuple(sorted({**dict(before.lives), **life}.items()))),
            validate_only=False,
        )
        topics = await self._cluster.read_topics(await self._session.children(TOPICS))
        led = [each.leader for _, nodes in topics.values() for each in nodes.values() if each.leader]
        remaining = sum(leader.broker_id == broker_id for leader in led)
        if remaining:
            # It looks at all that it has when it finds this in its queue.
            told = tuple(Enqueue(broker_id, change) for change in instead_of_starts())
            await self._session.multi(operations_of(told))
        return controller_pb2.ControlledShutdownResponse(remaining_leader_count=remaining)

    # --- what only a controller can do -----------------------------------------------------------

    async def ResignController(self, request: Any, context: Any) -> NoReturn:
        """Refused: nobody is one."""
        raise no_controller(
            "ResignController", "let a broker give up what it leads by `hightide broker drain`"
        )

    async def ReportFailedReplicas(self, request: Any, context: Any) -> NoReturn:
        """Refused: a broker leaves its ISRs itself."""
        raise no_controller("ReportFailedReplicas", "start the brokers with one --coordination")

    # --- parts -----------------------------------------------------------------------------------

    async def _alive(self) -> list[int]:
        return sorted(map(int, filter(str.isdigit, await self._session.children(BROKER_IDS))))

    async def _topic(self, name: str, *, deletes: bool = False) -> LedTopic:
        """A topic that is there; with `deletes`, also one whose creation or deletion nobody has finished."""
        checks.check_name(name)
        found = (await self._cluster.read_topics([name])).get(name)
        if found is None:
            raise fault(Outcome.UNKNOWN_TOPIC, f"topic {name!r}")
        topic, _ = found
        if not (topic.partition_count or deletes):
            is_new = topic.attempt is not None
            outcome = Outcome.TOPIC_BEING_CREATED if is_new else Outcome.TOPIC_BEING_DELETED
            raise fault(outcome, f"topic {name!r}")
        return found

    async def _described(self, name: str) -> Any:
        return descriptions.topic_out(name, *await self._topic(name))

    async def _states(self, names: Iterable[TopicPartition]) -> dict[TopicPartition, PartitionNodes]:
        legal = [name for name in names if is_legal_topic_name(name.topic) and name.partition >= 0]
        found = await self._cluster.read_partitions(legal)
        return {
            TopicPartition(topic, number): nodes
            for topic, (_, partitions) in found.items()
            for number, nodes in partitions.items()
        }

    async def _named(
        self, asked: Iterable[controller_pb2.PartitionName], otherwise: Callable[[PartitionNodes], bool]
    ) -> list[TopicPartition]:
        """The partitions that a request names; all of some kind, if it names none."""
        names = list(map(_name_in, asked))
        _check_count(len(names))
        if names:
            return names
        found = await self._cluster.read_topics(await self._session.children(TOPICS))
        return [
            TopicPartition(topic, number)
            for topic, (_, partitions) in sorted(found.items())
            for number, nodes in sorted(partitions.items())
            if otherwise(nodes)
        ]

    async def _ask_each(
        self, names: list[TopicPartition], requests: Iterable[Callable[[int], ev.Event]]
    ) -> list[controller_pb2.PartitionResult]:
        """What becomes of each partition."""
        places = asyncio.Semaphore(ASKED_AT_ONCE)

        async def ask(
            name: TopicPartition, request: Callable[[int], ev.Event]
        ) -> controller_pb2.PartitionResult:
            if not is_legal_topic_name(name.topic):
                return _result(name, Outcome.UNKNOWN_TOPIC)
            async with places:
                return _result(name, await self._shell.ask(request))

        return await asyncio.gather(*map(ask, names, requests))

    async def _would_move(
        self, move: controller_pb2.PartitionMove, alive: set[int]
    ) -> controller_pb2.PartitionResult:
        name, replicas = _name_in(move.partition), tuple(move.replicas)
        outcome = Outcome.DONE
        if name not in await self._states([name]):
            outcome = Outcome.UNKNOWN_PARTITION
        elif not replicas or len(set(replicas)) != len(replicas):
            outcome = Outcome.INVALID_ASSIGNMENT
        elif not set(replicas) <= alive:
            outcome = Outcome.REPLICA_NOT_ONLINE
        return _result(name, outcome)

    async def _limit(self, throttle_bytes_per_s: int) -> None:
        if throttle_bytes_per_s < 0:
            raise ServiceError(
                ErrorCode.ERROR_CODE_INVALID_REQUEST,
                f"throttle_bytes_per_s is {throttle_bytes_per_s}; it is a number of bytes, or 0 for no limit",
            )
        path, content = ReassignmentThrottleZnode.path(), ReassignmentThrottleZnode(throttle_bytes_per_s)
        await self._session.ensure_path(path.rpartition("/")[0])
        with contextlib.suppress(NodeExists):
            await self._session.create(path, content.encode())
            return
        await self._session.set(path, content.encode(), -1)

    async def _until_led(self, topic: str, numbers: Iterable[int]) -> None:
        """Wait until these partitions are led, and no longer than LED_WITHIN_S: the race for the leader znode
        begins when their replicas have started."""
        waiting = {LeaderZnode.path(topic, number) for number in numbers}
        touched = asyncio.Event()
        broken = True
        """Whether no watch tells of what is waited for."""

        def follow(event: object) -> None:
            nonlocal broken
            if isinstance(event, WatchFired):
                waiting.discard(event.path)
            elif isinstance(event, SessionStateChanged):
                broken = broken or event.state is SessionState.CONNECTED
            touched.set()

        self._session.followers.add(follow)
        try:
            async with asyncio.timeout(LED_WITHIN_S):
                while waiting:
                    touched.clear()
                    if broken:
                        broken = False
                        paths = sorted(waiting)
                        found = await asyncio.gather(
                            *(self._session.exists(path, watch=True) for path in paths)
                        )
                        waiting.difference_update(
                            path for path, znode in zip(paths, found, strict=True) if znode is not None
                        )
                    elif waiting:
                        await touched.wait()
        except TimeoutError:
            return  # The answer says who is not led.
        finally:
            self._session.followers.discard(follow)


def _has_other_leader(nodes: PartitionNodes) -> bool:
    return bool(nodes.replicas) and descriptions.leader_of(nodes) != nodes.replicas[0]


def _check_count(count: int) -> None:
    if count > PARTITIONS_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"{count:,} partitions in one request; {PARTITIONS_MAX:,} is the most",
        )


def _name_in(name: controller_pb2.PartitionName) -> TopicPartition:
    return TopicPartition(name.topic, name.partition)


def _result(name: TopicPartition, outcome: Outcome) -> controller_pb2.PartitionResult:
    code, message = fault_of(outcome, f"{name.topic[:260]}-{name.partition}")
    return controller_pb2.PartitionResult(
        partition=descriptions.name_out(name),
        error_code=ErrorCode.ValueType(code),
        message=message,
    )


def _election_out(
    result: controller_pb2.PartitionResult, before: PartitionNodes | None, after: PartitionNodes | None
) -> controller_pb2.Election:
    leads = NO_LEADER if after is None else descriptions.leader_of(after)
    led = NO_LEADER if before is None else descriptions.leader_of(before)
    if not result.error_code and leads == led:
        result.message = f"broker {leads} leads already"
    is_unclean = after is not None and after.isr is not None and after.isr.unclean_epoch == after.isr.epoch
    lost = before.isr.isr if is_unclean and before is not None and before.isr is not None else ()
    return controller_pb2.Election(
        result=result,
        leader=leads,
        leader_epoch=-1 if after is None else after.epoch,
        previous_leader=led,
        previous_isr=lost,
    )
