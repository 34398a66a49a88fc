"""Produce: check, append, wait for the in-sync replicas (V3 section G; acks as in broker_service.proto)."""

from __future__ import annotations

from hightide.batch.errors import BatchError
from hightide.batch.header import check_from_producer
from hightide.batch.wire import ProducePartition, ProduceRequest
from hightide.v1.broker_service_pb2 import Acks
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.principals import current_caller
from hightide_runtime.clock import Clock
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.throttle import Throttle
from hightide_runtime.serving.fair_limit import FairLimit, Holder

from hightide_broker.cluster.metadata import MetadataCache
from hightide_broker.contract.data_calls import Outcome, PartitionAppended, PartitionRefused
from hightide_broker.core.effects import Append
from hightide_broker.core.events import ProduceArrived
from hightide_broker.core.leader import refuse_produce
from hightide_broker.core.refusals import Refusal
from hightide_broker.data import partition_errors
from hightide_broker.data.producer_owners import ProducerOwners, may_use
from hightide_broker.limits import REQUEST_PARTITIONS_MAX, WAIT_MS_MAX, bounded_wait_ms
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.replica.parking import ParkedProduce
from hightide_broker.replica.shell import Payload, ReplicaShell, refusal_in
from hightide_broker.storage import DuplicateBatch, RejectedBatch, StorageError


class ProduceHandler:
    """Answers Produce. One for each broker; belongs to the event loop's thread."""

    def __init__(
        self,
        broker_id: int,
        clock: Clock,
        replicas: HostedReplicas,
        metadata: MetadataCache,
        shell: ReplicaShell,
        in_flight: FairLimit,
        owners: ProducerOwners,
    ) -> None:
        self._broker_id = broker_id
        self._clock = clock
        self._replicas = replicas
        self._metadata = metadata
        self._shell = shell
        self._in_flight = in_flight
        self._owners = owners

    async def produce(
        self, request: ProduceRequest[memoryview], peer: Holder, throttle: Throttle | None = None
    ) -> list[Outcome]:
        """Append the batches of the request, and return each partition's outcome, in the request's order.

        Returns when the acknowledgements are there, or the time is up. With ACKS_NONE there are outcomes too,
        but the servicer does not send them. `throttle`: nothing is appended before what its principal
        produced earlier is paid for. Raises ServiceError for a fault of the whole request.
        """
        _check(request)
        size_bytes = sum(len(each.batches) for each in request.partitions)
        if not self._in_flight.take(peer, size_bytes):
            raise ServiceError(
                ErrorCode.ERROR_CODE_OVERLOADED,
                f"broker {self._broker_id} holds {self._in_flight.taken} bytes of unfinished produces, "
                f"{self._in_flight.held(peer)} of them of this connection; it holds {self._in_flight.limit}, "
                "and of each connection and principal as many as are free. Try again after a pause",
            )
        wait_ms = bounded_wait_ms(request.timeout_ms)
        try:
            if throttle is not None:
                wait_ms -= await self._hold(throttle, request.acks, wait_ms)
                throttle.charge(size_bytes)
            parked = ParkedProduce() if request.acks == Acks.ACKS_ALL else None
            tag = self._owners.tag_of(current_caller())
            outcomes = [self._take(index, each, parked, tag) for index, each in enumerate(request.partitions)]
            if parked is not None:
                await parked.wait(wait_ms)
                for index, code in parked.failures.items():
                    outcomes[index] = self._not_acknowledged(request.partitions[index], code)
            self._shell.counters.produced(outcomes)
            return outcomes
        finally:
            self._in_flight.give_back(peer, size_bytes)

    async def _hold(self, throttle: Throttle, acks: int, wait_ms: int) -> int:
        """Wait until the request may be appended, and return how many milliseconds that took. Raises
        ServiceError (QUOTA_EXCEEDED)."""
        if not throttle.must_wait:
            return 0
        began_ms = self._clock.monotonic_ms()
        # Without acks a request has no time of its own.
        patience_ms = WAIT_MS_MAX if acks == Acks.ACKS_NONE else wait_ms
        if not await throttle.admit(patience_ms / 1000):
            raise ServiceError(
                ErrorCode.ERROR_CODE_QUOTA_EXCEEDED,
                f"broker {self._broker_id} appended nothing: {current_caller()} has produced more than its "
                f"quota allows (produce_bytes_per_s), and that was not paid for within {patience_ms} ms. "
                "Wait as long as throttle_time_ms says",
                {"quota": "produce_bytes_per_s", "throttle_time_ms": str(throttle.told_ms)},
            )
        return min(wait_ms, self._clock.monotonic_ms() - began_ms)

    def _take(
        self, index: int, asked: ProducePartition[memoryview], parked: ParkedProduce | None, tag: int
    ) -> Outcome:
        """Append one partition's batches, and register for their acknowledgement. `tag`: that of the caller
        (`producer_owners`)."""
        replica = self._replicas.get((asked.topic_id, asked.partition))
        if replica is None:
            return partition_errors.not_hosted(
                self._broker_id, self._metadata, (asked.topic_id, asked.partition)
            )
        try:
            outcome = self._append(replica, asked, tag, acks_all=parked is not None)
        except (BatchError, StorageError) as error:
            return partition_errors.by_storage(replica, error)
        if parked is None or isinstance(outcome, PartitionRefused):
            return outcome
        if replica.state.high_watermark < outcome.end_offset:
            parked.expect(index, replica.acks, outcome.end_offset)
        return outcome

    def _append(
        self, replica: HostedReplica, asked: ProducePartition[memoryview], tag: int, acks_all: bool
    ) -> Outcome:
        if not replica.state.is_leader:
            # A broker that does not lead need not check the batches; the core knows the answer.
            arrived = ProduceArrived(1, acks_all, asked.leader_epoch, self._clock.monotonic_ms())
            refusal = refusal_in(self._shell.feed(replica, arrived))
            assert refusal is not None, f"{replica} does not lead and took a produce"
            return partition_errors.by_core(replica, refusal)
        headers = check_from_producer(
            asked.batches, asked.topic_id, asked.partition, replica.settings.log.max_message_bytes
        )
        if headers[0].producer_id >= 0 or len(headers) > 1:
            for header in headers:
                if not may_use(header.producer_id, tag):
                    return PartitionRefused(
                        ErrorCode.ERROR_CODE_NOT_AUTHORIZED,
                        f"{replica}: producer id {header.producer_id} belongs to another principal than "
                        f"{current_caller()}; get one of your own by InitProducerId",
                    )
            verdict = replica.log.producers.check_all(headers)
            if isinstance(verdict, DuplicateBatch):
                refusal = refuse_produce(replica.state, acks_all, asked.leader_epoch)
                if refusal is not None:
                    # It is in the log already, perhaps by acks=1. acks=all has to wait for the replicas.
                    after = Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND
                    return partition_errors.by_core(
                        replica, after if refusal is Refusal.NOT_ENOUGH_REPLICAS else refusal
                    )
                return PartitionAppended(
                    verdict.base_offset, verdict.end_offset, replica.state.log_start_offset
                )
            if isinstance(verdict, RejectedBatch):
                return PartitionRefused(verdict.code, f"{replica}: {verdict.message}")
        if replica.first_commit is not None:
            replica.first_commit.traffic_came()
        record_count = sum(header.record_count for header in headers)
        arrived = ProduceArrived(record_count, acks_all, asked.leader_epoch, self._clock.monotonic_ms())
        effects = self._shell.feed(replica, arrived, Payload(asked.batches, headers))
        for effect in effects:
            if isinstance(effect, Append):
                return PartitionAppended(
                    effect.base_offset, effect.end_offset, replica.state.log_start_offset
                )
        refusal = refusal_in(effects)
        assert refusal is not None, f"{replica} neither appended nor refused"
        return partition_errors.by_core(replica, refusal)

    def _not_acknowledged(
        self, asked: ProducePartition[memoryview], code: ErrorCode.ValueType
    ) -> PartitionRefused:
        replica = self._replicas.get((asked.topic_id, asked.partition))
        if replica is None:
            key = (asked.topic_id, asked.partition)
            return partition_errors.after_stop(self._broker_id, self._metadata, key, code)
        return partition_errors.after_append(replica, code)


def _check(request: ProduceRequest[memoryview]) -> None:
    if request.acks not in (Acks.ACKS_NONE, Acks.ACKS_LEADER, Acks.ACKS_ALL):
        raise ServiceError(
            ErrorCode.ERROR_CODE_INVALID_REQUEST,
            f"acks is {request.acks}; use ACKS_NONE, ACKS_LEADER or ACKS_ALL",
        )
    if len(request.partitions) > REQUEST_PARTITIONS_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"the request names {len(request.partitions)} partitions; send at most {REQUEST_PARTITIONS_MAX}",
        )
