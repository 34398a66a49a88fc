"""The errors that brokers and controllers answer with, and those of any server; see `hightide.errors`."""

from hightide.errors.base import ServerError
from hightide.v1 import errors_pb2


class UnknownServerError(ServerError):
    """A server answered with an error that this version of the SDK does not know."""

    next_step = "Update the hightide package of this client."


class InternalError(ServerError):
    """The server failed in a way that has no code of its own. Without an address: this client itself did."""

    code = errors_pb2.ERROR_CODE_INTERNAL
    next_step = "Look into the log of the server; if none is named here, close this client for a new one."


class InvalidRequestError(ServerError):
    """The request contradicts itself or leaves out a field that it needs."""

    code = errors_pb2.ERROR_CODE_INVALID_REQUEST


class LimitExceededError(ServerError):
    """The request asks for more than the server's limits allow."""

    code = errors_pb2.ERROR_CODE_LIMIT_EXCEEDED
    next_step = "Ask for less at once."


class OverloadedError(ServerError):
    """The server already holds as much unfinished work as it is allowed to."""

    code = errors_pb2.ERROR_CODE_OVERLOADED
    retriable = True
    next_step = "Try again after a pause."


class QuotaExceededError(ServerError):
    """This client has used up its quota. `throttle_time_ms` says for how long to wait; 0 if nobody knows."""

    code = errors_pb2.ERROR_CODE_QUOTA_EXCEEDED
    retriable = True
    next_step = "Wait for so long, and try again; `hightide quota ls` shows all quotas."

    @property
    def throttle_time_ms(self) -> int:
        """For how long the server asks to wait."""
        told = self.metadata.get("throttle_time_ms", "")
        return int(told) if told.isascii() and told.isdigit() and len(told) < 10 else 0


class ShuttingDownError(ServerError):
    """The server is shutting down; its partitions move elsewhere."""

    code = errors_pb2.ERROR_CODE_SHUTTING_DOWN
    retriable = True
    refresh_metadata = True


class TimedOutError(ServerError):
    """The work was not finished in the given time; it may still be carried out."""

    code = errors_pb2.ERROR_CODE_TIMED_OUT
    retriable = True
    next_step = "See `hightide cluster health`; a replica may be slow or away."


class ZookeeperUnavailableError(ServerError):
    """ZooKeeper does not answer, so no decision can be made now."""

    code = errors_pb2.ERROR_CODE_ZOOKEEPER_UNAVAILABLE
    retriable = True
    next_step = "Start ZooKeeper again; the cluster then continues without help."


class NotAuthorizedError(ServerError):
    """The caller may not do this: the listener does not serve the method, the caller's role may not call it,
    or no ACL allows it."""

    code = errors_pb2.ERROR_CODE_NOT_AUTHORIZED
    next_step = (
        "Use another address or another certificate, as docs/reference/access.md has the rules; or let an "
        "operator allow it by `hightide acl add`."
    )


class NotAuthenticatedError(ServerError):
    """The listener asks for a bearer token, and the call has none or one that is not valid (any more)."""

    code = errors_pb2.ERROR_CODE_NOT_AUTHENTICATED
    next_step = "Give a valid token by token_file, by --token-file or by HIGHTIDE_TOKEN_FILE."


class UnknownTopicError(ServerError):
    """No topic has this name or id, or the topic was deleted."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_TOPIC
    refresh_metadata = True
    next_step = "`hightide topic ls` lists the topics, `hightide topic create` makes one."


class UnknownPartitionError(ServerError):
    """The topic has no such partition, or the broker that was asked holds no replica of it."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_PARTITION
    refresh_metadata = True
    next_step = "`hightide topic describe` shows the partitions."


class TopicAlreadyExistsError(ServerError):
    """A topic of this name exists already."""

    code = errors_pb2.ERROR_CODE_TOPIC_ALREADY_EXISTS
    next_step = "Take another name, or use the topic as it is."


class InvalidTopicNameError(ServerError):
    """The name is not 1 to 249 characters of [a-zA-Z0-9._-], or it is "." or ".."."""

    code = errors_pb2.ERROR_CODE_INVALID_TOPIC_NAME
    next_step = "Take another name."


class InvalidPartitionCountError(ServerError):
    """The number of partitions is below 1 or over the limit."""

    code = errors_pb2.ERROR_CODE_INVALID_PARTITION_COUNT


class InvalidReplicationFactorError(ServerError):
    """The replication factor is below 1 or above the number of live brokers."""

    code = errors_pb2.ERROR_CODE_INVALID_REPLICATION_FACTOR
    next_step = "`hightide cluster info` shows the live brokers."


class InvalidAssignmentError(ServerError):
    """An explicit assignment names a broker twice, or one that is not known."""

    code = errors_pb2.ERROR_CODE_INVALID_ASSIGNMENT
    next_step = "`hightide cluster info` shows the brokers."


class InvalidConfigError(ServerError):
    """A topic setting is unknown or its value cannot be used."""

    code = errors_pb2.ERROR_CODE_INVALID_CONFIG


class InconsistentTopicIdError(ServerError):
    """The topic of this name has another id: it was deleted and created again."""

    code = errors_pb2.ERROR_CODE_INCONSISTENT_TOPIC_ID
    refresh_metadata = True


class TopicBeingDeletedError(ServerError):
    """The topic is being deleted; its name is free again in a moment."""

    code = errors_pb2.ERROR_CODE_TOPIC_BEING_DELETED
    retriable = True
    next_step = "Try again after a pause."


class NoReassignmentError(ServerError):
    """The partition is not being moved."""

    code = errors_pb2.ERROR_CODE_NO_REASSIGNMENT
    next_step = "`hightide reassign ls` lists the moves under way."


class ReassignmentInProgressError(ServerError):
    """The partition is being moved, so the request is possible when that is done or cancelled."""

    code = errors_pb2.ERROR_CODE_REASSIGNMENT_IN_PROGRESS
    next_step = "`hightide reassign ls` shows the move, `hightide reassign cancel` cancels it."


class EligibleLeadersNotAvailableError(ServerError):
    """No replica that may become the leader is alive and, for a preferred leader, in sync."""

    code = errors_pb2.ERROR_CODE_ELIGIBLE_LEADERS_NOT_AVAILABLE
    next_step = "Start the broker that should lead, or wait until it has caught up."


class ElectionNotNeededError(ServerError):
    """The partition has a leader; an unclean election would only lose records."""

    code = errors_pb2.ERROR_CODE_ELECTION_NOT_NEEDED
    next_step = "`hightide topic describe` shows the leader."


class NotLeaderError(ServerError):
    """The broker that was asked does not lead the partition."""

    code = errors_pb2.ERROR_CODE_NOT_LEADER
    retriable = True
    refresh_metadata = True


class PartitionOfflineError(ServerError):
    """The partition has no leader: no in-sync replica is alive."""

    code = errors_pb2.ERROR_CODE_PARTITION_OFFLINE
    retriable = True
    refresh_metadata = True
    next_step = "Start one of the brokers of its ISR again; `hightide topic describe` names them."


class FencedLeaderEpochError(ServerError):
    """The leader epoch in the request is older than the broker's."""

    code = errors_pb2.ERROR_CODE_FENCED_LEADER_EPOCH
    retriable = True
    refresh_metadata = True


class UnknownLeaderEpochError(ServerError):
    """The leader epoch in the request is newer than the broker's: the broker is behind. It may stay behind,
    even if other brokers already know of a newer leader."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_LEADER_EPOCH
    retriable = True
    refresh_metadata = True


class StaleControllerEpochError(ServerError):
    """The controller epoch in the request is older than one seen before."""

    code = errors_pb2.ERROR_CODE_STALE_CONTROLLER_EPOCH


class StaleBrokerEpochError(ServerError):
    """The broker epoch in the request belongs to another life of the broker."""

    code = errors_pb2.ERROR_CODE_STALE_BROKER_EPOCH


class NotControllerError(ServerError):
    """The controller that was asked is not the active one."""

    code = errors_pb2.ERROR_CODE_NOT_CONTROLLER
    retriable = True
    refresh_metadata = True


class InconsistentClusterIdError(ServerError):
    """The sender belongs to another cluster."""

    code = errors_pb2.ERROR_CODE_INCONSISTENT_CLUSTER_ID


class UnknownBrokerError(ServerError):
    """No broker with this id is registered."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_BROKER
    next_step = "`hightide cluster info` shows the brokers."


class UnknownFetchSessionError(ServerError):
    """The fetch session is not known to the broker."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_FETCH_SESSION
    retriable = True


class FetchSessionOutOfTurnError(ServerError):
    """The fetch session is known, but the request is not its next one."""

    code = errors_pb2.ERROR_CODE_FETCH_SESSION_OUT_OF_TURN
    retriable = True


class NoControllerError(ServerError):
    """The leaders of this cluster decide for themselves. It has no controller, and nothing of what was asked
    for."""

    code = errors_pb2.ERROR_CODE_NO_CONTROLLER


class OffsetOutOfRangeError(ServerError):
    """The offset is below the log start offset, negative, or beyond the log end offset."""

    code = errors_pb2.ERROR_CODE_OFFSET_OUT_OF_RANGE
    next_step = "Seek to an offset that exists (`hightide topic offsets`), or set offset_reset."


class OffsetNotAvailableError(ServerError):
    """The leader does not know what is committed: it is new, or unsure whether it still leads."""

    code = errors_pb2.ERROR_CODE_OFFSET_NOT_AVAILABLE
    retriable = True
    refresh_metadata = True


class NotEnoughReplicasError(ServerError):
    """Fewer replicas are in sync than min.insync.replicas asks for; nothing was appended."""

    code = errors_pb2.ERROR_CODE_NOT_ENOUGH_REPLICAS
    retriable = True
    next_step = "Bring its brokers back; `hightide topic describe` shows the ISR."


class NotEnoughReplicasAfterAppendError(ServerError):
    """The batch was appended, but too few replicas stayed in sync to acknowledge it."""

    code = errors_pb2.ERROR_CODE_NOT_ENOUGH_REPLICAS_AFTER_APPEND
    retriable = True
    next_step = "Bring its brokers back; `hightide topic describe` shows the ISR."


class CorruptBatchError(ServerError):
    """A batch's CRC-32C does not match its bytes."""

    code = errors_pb2.ERROR_CODE_CORRUPT_BATCH
    next_step = "Memory or a disk changed bytes: check the machine that is named here."


class InvalidBatchError(ServerError):
    """A batch's header contradicts its body, its size or the request it came in."""

    code = errors_pb2.ERROR_CODE_INVALID_BATCH


class UnsupportedMagicError(ServerError):
    """The batch has a magic that the receiver does not know."""

    code = errors_pb2.ERROR_CODE_UNSUPPORTED_MAGIC
    next_step = "Update the receiver first, then the clients."


class BatchTooLargeError(ServerError):
    """The batch is larger than max.message.bytes, or than readers accept when it is decompressed."""

    code = errors_pb2.ERROR_CODE_BATCH_TOO_LARGE
    next_step = "Send smaller records, or raise the topic's max.message.bytes."


class OutOfOrderSequenceError(ServerError):
    """The producer's sequence does not follow on the last one appended."""

    code = errors_pb2.ERROR_CODE_OUT_OF_ORDER_SEQUENCE


class DuplicateSequenceError(ServerError):
    """The batch is older than what the broker remembers of this producer: it was appended before."""

    code = errors_pb2.ERROR_CODE_DUPLICATE_SEQUENCE


class FencedProducerEpochError(ServerError):
    """The producer id was taken over by a newer epoch of the same producer."""

    code = errors_pb2.ERROR_CODE_FENCED_PRODUCER_EPOCH
    next_step = "Close this producer; another one has taken its place."


class UnknownProducerIdError(ServerError):
    """The broker knows nothing of this producer id, though its sequence is not the first."""

    code = errors_pb2.ERROR_CODE_UNKNOWN_PRODUCER_ID


class SequenceConflictError(ServerError):
    """The log holds other records under these sequences of this producer: two writers share its id and
    epoch."""

    code = errors_pb2.ERROR_CODE_SEQUENCE_CONFLICT
    next_step = "Ask describe_producers for the next sequence of this id, and continue there."


class TooManyProducersError(ServerError):
    """The log remembers as many producers as it may; all may still retry, so no new one is accepted."""

    code = errors_pb2.ERROR_CODE_TOO_MANY_PRODUCERS
    retriable = True
    next_step = "Try again when some have been silent for an hour, or use fewer producers for longer."


class StorageFailedError(ServerError):
    """The log directory failed (an I/O error); its partitions are offline on this broker."""

    code = errors_pb2.ERROR_CODE_STORAGE_FAILED
    retriable = True
    refresh_metadata = True
    next_step = "Check the disk of the broker that is named here."


class DiskFullError(ServerError):
    """The disk is full. Reads go on; writes resume when there is room."""

    code = errors_pb2.ERROR_CODE_DISK_FULL
    retriable = True
    next_step = "Make room on the disk of the broker that is named here, or shorten retention."


class DivergingLogError(ServerError):
    """The log does not hold the record that this client read before the offset: an unclean election removed
    it, or the partition was created anew."""

    code = errors_pb2.ERROR_CODE_DIVERGING_LOG
    next_step = "Records read beyond it may exist nowhere else; seek() to continue, or set offset_reset."

    @property
    def diverging_end_offset(self) -> int:
        """The offset up to which the log still agrees with the records that this client read; seek to it to
        go on. -1 if it is not known."""
        return int(self.metadata.get("diverging_end_offset", -1))


class UnreadableBatchError(CorruptBatchError):
    """A batch arrived as it was written, but is no valid record batch: its producer made it wrong."""

    next_step = 'Seek to next_offset, or set on_corrupt_batch="skip", to continue behind it.'

    @property
    def next_offset(self) -> int:
        """The offset after the batch."""
        return int(self.metadata["next_offset"])
