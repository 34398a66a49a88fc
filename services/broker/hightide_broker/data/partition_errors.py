"""The reason why this broker refuses a request about a partition: the code, a sentence, and the leader.

Each sentence names the topic and partition, says what is wrong, and what to do next (docs/protocol.md,
"Errors").
"""

from __future__ import annotations

from typing import Final

from hightide.batch.errors import BatchError
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import ServiceError, reason_of

from hightide_broker.cluster.metadata import BLANK, MetadataCache
from hightide_broker.cluster.partition_decisions import PartitionKey
from hightide_broker.contract import convert
from hightide_broker.contract.data_calls import FetchFrom, PartitionRefused
from hightide_broker.core.lineage import NO_EPOCH, EpochEnd
from hightide_broker.core.refusals import Refusal
from hightide_broker.replica.held_replicas import HostedReplica, HostedReplicas
from hightide_broker.storage import StorageError

_LEADERSHIP: Final = frozenset(
    {
        Refusal.NOT_LEADER,
        Refusal.PARTITION_OFFLINE,
        Refusal.FENCED_LEADER_EPOCH,
        Refusal.UNKNOWN_LEADER_EPOCH,
    }
)


def by_core(replica: HostedReplica, refusal: Refusal, offset: int | None = None) -> PartitionRefused:
    """A refusal of the replica's core, as a client gets it; `offset` is the one in the request."""
    leader, epoch = replica.state.leader, replica.state.leader_epoch
    message = f"{replica}: {_sentence(replica, refusal, offset)}"
    if refusal in _LEADERSHIP:
        return PartitionRefused(convert.error_code_of(refusal), message, leader, epoch)
    return PartitionRefused(convert.error_code_of(refusal), message)


def by_storage(replica: HostedReplica, error: StorageError | BatchError) -> PartitionRefused:
    """What its log raised; some errors of a log name it, those of a disk do not."""
    message = str(error)
    is_named = message.startswith(f"{replica} ")
    return PartitionRefused(error.code, message if is_named else f"{replica}: {message}")


def diverging(replica: HostedReplica, asked: FetchFrom, agreed: EpochEnd) -> PartitionRefused:
    """The answer to a consumer that has read a record which is not in the log."""
    held = "which begins later" if agreed.epoch == NO_EPOCH else f"which has epoch {agreed.epoch} there"
    sentence = (
        f"{replica}: the record that was read before offset {asked.offset}, in leader epoch "
        f"{asked.last_fetched_epoch}, is not in the log, {held}; the log and what was read may agree up to "
        f"offset {agreed.end_offset}"
    )
    return PartitionRefused(ErrorCode.ERROR_CODE_DIVERGING_LOG, sentence, agreed=agreed)


def _sentence(replica: HostedReplica, refusal: Refusal, offset: int | None) -> str:
    state = replica.state
    leader, epoch = state.leader, state.leader_epoch
    match refusal:
        case Refusal.NOT_LEADER:
            return (
                f"this broker does not lead it, broker {leader} does in epoch {epoch}; refresh the metadata"
            )
        case Refusal.PARTITION_OFFLINE:
            return "it has no leader, because no in-sync replica is alive; start one of its brokers"
        case Refusal.FENCED_LEADER_EPOCH:
            return f"the request names an older leader epoch than {epoch}; refresh the metadata"
        case Refusal.UNKNOWN_LEADER_EPOCH:
            return f"the request names a newer leader epoch than this broker knows ({epoch}); try again"
        case Refusal.OFFSET_OUT_OF_RANGE:
            start, end = state.log_start_offset, state.log_end_offset
            asked = "the offset" if offset is None else f"offset {offset}"
            return (
                f"{asked} is not between its log start {start} and its log end {end}; use an offset "
                "between them"
            )
        case Refusal.OFFSET_NOT_AVAILABLE if offset is not None:
            return (
                f"offset {offset} is beyond its log end {state.log_end_offset}, and it does not know whether "
                f"it still leads in epoch {epoch}; try again"
            )
        case Refusal.OFFSET_NOT_AVAILABLE:
            return f"the new leader does not know its high watermark in epoch {epoch} yet; try again"
        case Refusal.NOT_ENOUGH_REPLICAS | Refusal.NOT_ENOUGH_REPLICAS_AFTER_APPEND:
            isr = "" if state.leading is None else f" ({list(state.leading.isr.isr)})"
            wanted = state.settings.min_insync_replicas
            return f"its in-sync replicas{isr} are fewer than min.insync.replicas {wanted}; try again"
        case Refusal.STORAGE_FAILED:
            return "this broker's log directory failed; see its log"
        case Refusal.NOT_ASSIGNED:
            return "this broker is not assigned a replica of it; refresh the metadata"
        case Refusal.STALE_CONTROLLER_EPOCH | Refusal.INVALID_DECISION:
            return refusal.name.lower().replace("_", " ")


def not_hosted(broker_id: int, metadata: MetadataCache, key: PartitionKey) -> PartitionRefused:
    """The answer to a client that asks for a partition of which this broker holds no replica."""
    topic_id, partition = key
    topic = metadata.topic_by_id(topic_id)
    if topic is None:
        name = metadata.name_of_deleted(topic_id)
        if not name and metadata.is_blank:
            return PartitionRefused(
                ErrorCode.ERROR_CODE_NOT_LEADER, f"broker {broker_id} {BLANK}; refresh the metadata"
            )
        if not name:
            return no_such_topic(broker_id, topic_id)
        return PartitionRefused(
            ErrorCode.ERROR_CODE_UNKNOWN_TOPIC,
            f"topic {name} with the id {topic_id.hex()} was deleted; refresh the metadata",
        )
    view = metadata.partition(topic_id, partition)
    if view is None:
        return PartitionRefused(
            ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
            f"topic {topic.topic} has no partition {partition}; it has {len(topic.partitions)}",
        )
    if view.leader == broker_id:
        return PartitionRefused(
            ErrorCode.ERROR_CODE_NOT_LEADER,
            f"{topic.topic}-{partition}: broker {broker_id} should lead it, but its log is not open: it is "
            "being recovered, or its directory failed; try again",
        )
    return PartitionRefused(
        ErrorCode.ERROR_CODE_NOT_LEADER,
        f"{topic.topic}-{partition}: broker {broker_id} does not lead it, broker {view.leader} does in epoch "
        f"{view.leader_epoch}; refresh the metadata",
        view.leader,
        view.leader_epoch,
    )


def no_such_topic(broker_id: int, topic_id: bytes) -> PartitionRefused:
    """The answer about a topic that there is not, or of which the client may not know."""
    return PartitionRefused(
        ErrorCode.ERROR_CODE_UNKNOWN_TOPIC,
        f"broker {broker_id} knows no topic with the id {topic_id.hex()}; refresh the metadata",
    )


def no_replica(broker_id: int, metadata: MetadataCache, key: PartitionKey) -> PartitionRefused:
    """The answer to a client that asks for this broker's own replica of a partition, if it holds none."""
    view = metadata.partition(*key)
    topic = metadata.topic_by_id(key[0])
    if view is None or topic is None:
        return not_hosted(broker_id, metadata, key)
    if broker_id in view.replicas:
        return PartitionRefused(
            ErrorCode.ERROR_CODE_NOT_LEADER,
            f"{topic.topic}-{key[1]}: broker {broker_id} should hold a replica of it, but its log is not "
            "open: it is being recovered, or its directory failed; try again",
        )
    return PartitionRefused(
        ErrorCode.ERROR_CODE_UNKNOWN_PARTITION,
        f"{topic.topic}-{key[1]}: broker {broker_id} holds no replica of it; ask one of the brokers "
        f"{list(view.replicas)}",
    )


def after_append(replica: HostedReplica, code: ErrorCode.ValueType) -> PartitionRefused:
    """Why a batch that was appended could not be acknowledged."""
    state = replica.state
    if code == ErrorCode.ERROR_CODE_TIMED_OUT:
        return PartitionRefused(
            code, f"{replica}: not all in-sync replicas got it within the timeout; it may still be committed"
        )
    sentence = f"{replica}: appended, but not acknowledged: {reason_of(code)}; try again"
    return PartitionRefused(code, sentence, state.leader, state.leader_epoch)


def after_stop(
    broker_id: int, metadata: MetadataCache, key: PartitionKey, code: ErrorCode.ValueType
) -> PartitionRefused:
    """The reason why a batch was not acknowledged that was appended to a replica which has been stopped
    since.

    `not_hosted` would be wrong: it promises that nothing was appended, and another replica of the partition
    may have the batch.
    """
    topic_id, partition = key
    view = metadata.partition(topic_id, partition)
    topic = metadata.topic_by_id(topic_id)
    name = metadata.name_of_deleted(topic_id) if topic is None else topic.topic
    sentence = (
        f"{name or topic_id.hex()}-{partition}: appended, but broker {broker_id} holds no replica of it any "
        "more: whether it is committed is not known; try again"
    )
    if view is None or view.leader == broker_id:
        return PartitionRefused(code, sentence)
    return PartitionRefused(code, sentence, view.leader, view.leader_epoch)


def find_by_name(
    broker_id: int, metadata: MetadataCache, replicas: HostedReplicas, topic: str, partition: int
) -> HostedReplica:
    """The replica that a plain-records call is about. Raises ServiceError if this broker has none."""
    known = metadata.topic(topic)
    if known is None and metadata.is_blank:
        raise ServiceError(ErrorCode.ERROR_CODE_OVERLOADED, f"broker {broker_id} {BLANK}; try again")
    if known is None:
        raise ServiceError(
            ErrorCode.ERROR_CODE_UNKNOWN_TOPIC, f"topic {topic[:249]!r} does not exist; create it first"
        )
    key = (known.topic_id, partition)
    replica = replicas.get(key)
    if replica is None:
        raise not_hosted(broker_id, metadata, key).as_service_error()
    return replica
