"""The RPCs of a broker. Each converts the message, calls the part that does the work, and converts its
answer. No decision is made here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from operator import attrgetter
from typing import Any

from hightide.batch import wire
from hightide.batch.header import Buffer
from hightide.v1 import broker_control_service_pb2 as control_pb2
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import replica_service_pb2 as replica_pb2
from hightide.v1.broker_control_service_pb2_grpc import (
    BrokerControlServiceServicer,
    add_BrokerControlServiceServicer_to_server,
)
from hightide.v1.broker_service_pb2_grpc import BrokerServiceServicer, add_BrokerServiceServicer_to_server
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceServicer, add_ReplicaServiceServicer_to_server
from hightide_runtime.access.call_access import current_access
from hightide_runtime.access.principals import current_caller
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.serving.fair_limit import holder_of
from hightide_runtime.serving.interceptors.interceptor import Plane
from hightide_runtime.serving.server import Service

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract import convert, convert_control
from hightide_broker.contract.convert_deletions import deletions_in, deletions_out
from hightide_broker.contract.convert_descriptions import replicas_out
from hightide_broker.contract.convert_producers import producers_in, producers_out
from hightide_broker.contract.data_calls import Outcome
from hightide_broker.contract.topic_answers import TopicAnswers
from hightide_broker.data import partition_errors
from hightide_broker.data.delete_records import RecordDeletion
from hightide_broker.data.describe_producers import ProducerDescriptions
from hightide_broker.data.fetch import FetchHandler
from hightide_broker.data.list_offsets import OffsetLookup
from hightide_broker.data.plain_records import PlainRecords
from hightide_broker.data.produce import ProduceHandler
from hightide_broker.data.producer_ids import ProducerIds
from hightide_broker.data.producer_owners import ProducerOwners
from hightide_broker.data.topic_access import TopicAccess
from hightide_broker.directories.disk_space import DiskSpace
from hightide_broker.directories.replica_descriptions import ReplicaDescriptions
from hightide_broker.hosting.control import ControlHandler
from hightide_broker.limits import PRODUCE_TIMEOUT_MS_DEFAULT
from hightide_broker.replica.held_replicas import HostedReplicas
from hightide_broker.replication.digests import DigestServer
from hightide_broker.replication.replica_server import ReplicaServer

Context = Any

BROKER_SERVICE = "hightide.v1.BrokerService"
REPLICA_SERVICE = "hightide.v1.ReplicaService"
BROKER_CONTROL_SERVICE = "hightide.v1.BrokerControlService"


_KEY = attrgetter("key")


def _key(asked: wire.ProducePartition[memoryview]) -> PartitionKey:
    return asked.topic_id, asked.partition


@dataclass(frozen=True, slots=True)
class _BulkCodec:
    """How the bytes of a bulk method are read and written, without a copy through protobuf."""

    parse: Callable[[bytes], Any]
    serialise: Callable[[Any], bytes]


class ClientRpcs(BrokerServiceServicer):
    """BrokerService."""

    def __init__(
        self,
        broker_id: int,
        metadata: MetadataCache,
        replicas: HostedReplicas,
        producing: ProduceHandler,
        fetching: FetchHandler,
        offsets: OffsetLookup,
        plain: PlainRecords,
        producer_ids: ProducerIds,
        producer_owners: ProducerOwners,
        descriptions: ReplicaDescriptions,
        producers: ProducerDescriptions,
        deletion: RecordDeletion,
        disk_space: DiskSpace,
        quotas: LiveQuotas,
    ) -> None:
        self._quotas = quotas
        self._broker_id = broker_id
        self._metadata = metadata
        self._topic_answers = TopicAnswers(metadata)
        self._replicas = replicas
        self._producing = producing
        self._fetching = fetching
        self._offsets = offsets
        self._plain = plain
        self._producer_ids = producer_ids
        self._producer_owners = producer_owners
        self._descriptions = descriptions
        self._producers = producers
        self._deletion = deletion
        self._disk_space = disk_space
        self._topics = TopicAccess(broker_id, metadata)

    async def Produce(  # type: ignore[override]
        self, request: wire.ProduceRequest[memoryview], context: Context
    ) -> broker_pb2.ProduceResponse:
        """Append record batches; raw bytes in, by `wire`."""
        throttle = self._quotas.producing_of_caller()

        async def produce(partitions: Sequence[wire.ProducePartition[memoryview]]) -> Sequence[Outcome]:
            permitted = replace(request, partitions=tuple(partitions))
            return await self._producing.produce(permitted, holder_of(context), throttle)

        outcomes = await self._topics.for_permitted("write", request.partitions, _key, produce)
        if request.acks == broker_pb2.ACKS_NONE:
            return convert.produce_unacknowledged_out(request.partitions, convert.throttle_out(throttle))
        return convert.produce_out(request.partitions, outcomes, convert.throttle_out(throttle))

    async def Fetch(  # type: ignore[override]
        self, request: broker_pb2.FetchRequest, context: Context
    ) -> wire.FetchResponse[Sequence[Buffer]]:
        """Read record batches; raw bytes out, by `wire`."""
        throttle = self._quotas.fetching_of_caller()
        call = convert.fetch_in(request)
        refusals = self._topics.refusals("read", (each.key for each in call.partitions))
        if not any(refusals):
            read = await self._fetching.fetch(call, holder_of(context), throttle)
            return convert.fetch_out(read, convert.throttle_out(throttle))
        # A refusal is an answer, for which the caller need not wait.
        permitted = [each for each, refusal in zip(call.partitions, refusals, strict=True) if refusal is None]
        some = replace(call, partitions=tuple(permitted), max_wait_ms=0)
        found = iter(await self._fetching.fetch(some, holder_of(context), throttle) if permitted else ())
        read = [
            next(found) if refusal is None else convert.not_read(each.key, refusal)
            for each, refusal in zip(call.partitions, refusals, strict=True)
        ]
        return convert.fetch_out(read, convert.throttle_out(throttle))

    async def ProduceRecords(
        self, request: broker_pb2.ProduceRecordsRequest, context: Context
    ) -> broker_pb2.ProduceRecordsResponse:
        """Append plain records."""
        throttle = self._quotas.producing_of_caller()
        base_offset = await self._plain.produce(
            self._key(request.topic, request.partition),
            convert.plain_records_in(request),
            request.acks or broker_pb2.ACKS_ALL,
            request.timeout_ms or PRODUCE_TIMEOUT_MS_DEFAULT,
            holder_of(context),
            throttle,
        )
        return broker_pb2.ProduceRecordsResponse(
            base_offset=base_offset, throttle_time_ms=convert.throttle_out(throttle)
        )

    async def FetchRecords(
        self, request: broker_pb2.FetchRecordsRequest, context: Context
    ) -> broker_pb2.FetchRecordsResponse:
        """Read plain records."""
        key = self._key(request.topic, request.partition)
        skips = convert.skips_corrupt_batches(request)
        throttle = self._quotas.fetching_of_caller()
        found = await self._plain.fetch(
            key,
            request.offset,
            request.max_records,
            request.max_wait_ms,
            holder_of(context),
            throttle,
            skips_corrupt=skips,
        )
        return convert.plain_records_out(found, convert.throttle_out(throttle))

    async def ListOffsets(
        self, request: broker_pb2.ListOffsetsRequest, context: Context
    ) -> broker_pb2.ListOffsetsResponse:
        """Find offsets."""
        questions = convert.list_offsets_in(request)
        answers = await self._topics.for_permitted("describe", questions, _KEY, self._offsets.look_up)
        return convert.list_offsets_out(questions, answers)

    async def GetMetadata(
        self, request: broker_pb2.GetMetadataRequest, context: Context
    ) -> broker_pb2.GetMetadataResponse:
        """Return the leaders of partitions."""
        names = convert.metadata_names_in(request)
        access = current_access()
        sees = None if access is None else access.sees
        return convert.metadata_out(self._topic_answers, names, request.all_topics, sees)

    async def InitProducerId(
        self, request: broker_pb2.InitProducerIdRequest, context: Context
    ) -> broker_pb2.InitProducerIdResponse:
        """Assign an id to an idempotent producer, which belongs to the caller."""
        number = await self._producer_ids.take()
        producer_id = self._producer_owners.bound(number, current_caller())
        return broker_pb2.InitProducerIdResponse(producer_id=producer_id, producer_epoch=0)

    async def DescribeReplicas(
        self, request: broker_pb2.DescribeReplicasRequest, context: Context
    ) -> broker_pb2.DescribeReplicasResponse:
        """Describe the replicas of this broker."""
        topics = convert.described_topics_in(request)
        replicas = [] if request.log_directories_only else await self._descriptions.describe(topics)
        return replicas_out(self._broker_id, replicas, await self._disk_space.describe())

    async def DescribeProducers(
        self, request: broker_pb2.DescribeProducersRequest, context: Context
    ) -> broker_pb2.DescribeProducersResponse:
        """Describe the state of producers in the logs."""
        questions = producers_in(request)
        answers = await self._topics.for_permitted(
            "read", questions, _KEY, partial(self._producers.describe, producer_ids=request.producer_ids)
        )
        return producers_out(questions, answers)

    async def DeleteRecords(
        self, request: broker_pb2.DeleteRecordsRequest, context: Context
    ) -> broker_pb2.DeleteRecordsResponse:
        """Delete records at the beginning of partitions."""
        asked = deletions_in(request)
        delete = partial(self._deletion.delete, validate_only=request.validate_only)
        return deletions_out(await self._topics.for_permitted("delete", asked, _KEY, delete))

    def _key(self, topic: str, partition: int) -> PartitionKey:
        return partition_errors.find_by_name(
            self._broker_id, self._metadata, self._replicas, topic, partition
        ).key


class ReplicaRpcs(ReplicaServiceServicer):
    """ReplicaService."""

    def __init__(self, server: ReplicaServer, digests: DigestServer) -> None:
        self._server = server
        self._digests = digests

    async def ReplicaFetch(  # type: ignore[override]
        self, request: replica_pb2.ReplicaFetchRequest, context: Context
    ) -> wire.ReplicaFetchResponse[Sequence[Buffer]]:
        """One round of a fetch session; raw bytes out, by `wire`."""
        return await self._server.fetch(convert.replica_fetch_in(request), holder_of(context))

    async def EndOffsetForLeaderEpoch(
        self, request: replica_pb2.EndOffsetForLeaderEpochRequest, context: Context
    ) -> replica_pb2.EndOffsetForLeaderEpochResponse:
        """Return where epochs ended."""
        follower, questions = convert.epoch_questions_in(request)
        return convert.epoch_answers_out(self._server.epoch_ends(follower, questions))

    async def DigestBatches(
        self, request: replica_pb2.DigestBatchesRequest, context: Context
    ) -> replica_pb2.DigestBatchesResponse:
        """Return a digest of committed batches."""
        digest = await self._digests.answer(convert.digest_question_in(request))
        return replica_pb2.DigestBatchesResponse(digest=digest)


class ControlRpcs(BrokerControlServiceServicer):
    """BrokerControlService."""

    def __init__(self, control: ControlHandler) -> None:
        self._control = control

    async def LeaderAndISR(
        self, request: control_pb2.LeaderAndISRRequest, context: Context
    ) -> control_pb2.LeaderAndISRResponse:
        """Lead or follow as the controller decided."""
        stamp, decisions = convert_control.stamp_in(request.stamp), convert_control.decisions_in(request)
        results = await self._control.leader_and_isr(stamp, decisions)
        return control_pb2.LeaderAndISRResponse(partitions=convert_control.control_results_out(results))

    async def StopReplica(
        self, request: control_pb2.StopReplicaRequest, context: Context
    ) -> control_pb2.StopReplicaResponse:
        """Stop replicas as the controller decided."""
        stamp, stops = convert_control.stamp_in(request.stamp), convert_control.stops_in(request)
        results = await self._control.stop_replicas(stamp, stops)
        return control_pb2.StopReplicaResponse(partitions=convert_control.control_results_out(results))

    async def UpdateMetadata(
        self, request: control_pb2.UpdateMetadataRequest, context: Context
    ) -> control_pb2.UpdateMetadataResponse:
        """Apply the controller's metadata."""
        await self._control.update_metadata(
            convert_control.stamp_in(request.stamp), convert_control.metadata_update_in(request)
        )
        return control_pb2.UpdateMetadataResponse()


def control_service(control: ControlRpcs) -> Service:
    """The door for the controller, as `serve` takes it."""
    return Service(
        BROKER_CONTROL_SERVICE, control, add_BrokerControlServiceServicer_to_server, plane=Plane.CONTROL
    )


def services(client: ClientRpcs, replica: ReplicaRpcs) -> list[Service]:
    """The gRPC services of every broker, as `serve` takes them."""
    return [
        Service(
            BROKER_SERVICE,
            client,
            add_BrokerServiceServicer_to_server,
            {
                "Produce": _BulkCodec(
                    wire.parse_produce_request, broker_pb2.ProduceResponse.SerializeToString
                ),
                "Fetch": _BulkCodec(broker_pb2.FetchRequest.FromString, wire.serialise_fetch_response),
            },
        ),
        Service(
            REPLICA_SERVICE,
            replica,
            add_ReplicaServiceServicer_to_server,
            {
                "ReplicaFetch": _BulkCodec(
                    replica_pb2.ReplicaFetchRequest.FromString, wire.serialise_replica_fetch_response
                )
            },
            plane=Plane.CONTROL,
        ),
    ]
