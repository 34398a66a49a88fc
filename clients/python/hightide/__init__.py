"""Hightide: a replicated, partitioned commit log. This package is its Python SDK.

Importing it costs nothing: each name is loaded when it is first used (PEP 562). So services, which use only
`hightide.v1` and `hightide.batch`, load neither gRPC's client side nor Arrow.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from hightide.acls import AccessDecision, Acl, AclListing, AlteredAcls
    from hightide.admin import Admin
    from hightide.consumer import Consumer
    from hightide.consuming.corrupt_batches import SkippedBatches
    from hightide.errors import HightideError
    from hightide.groups import (
        CommittedOffset,
        GroupDescription,
        GroupListing,
        GroupMember,
        OffsetReset,
        PartitionLag,
    )
    from hightide.producer import Producer
    from hightide.producer_key import ProducerKey
    from hightide.producing.delivery import BulkDelivery, Delivery
    from hightide.quotas import Quota
    from hightide.range_reader import RangeBatch, RangeReader
    from hightide.records import (
        BrokerDescription,
        ClusterDescription,
        Complaint,
        DeletedTopic,
        DeliveredPiece,
        DeserializedRecord,
        Election,
        PartitionDescription,
        PartitionOutcome,
        ProducerState,
        Reassignment,
        ReassignmentListing,
        Record,
        RecordMetadata,
        RecordRange,
        ReplicaDescription,
        ReplicaListing,
        TopicDescription,
        TopicPartition,
    )
    from hightide.serializing import DeserializingConsumer, SerializingProducer
    from hightide.servers import (
        LogDirectory,
        ResignedController,
        ServerAddress,
        ServerDescription,
        ServerSetting,
        SettingOrigin,
    )
    from hightide.statistics import (
        BrokerStatistics,
        CallFailure,
        ConsumerStatistics,
        GroupStatistics,
        PartitionStatistics,
        ProducerStatistics,
    )

__all__ = [
    "AccessDecision",
    "Acl",
    "AclListing",
    "Admin",
    "AlteredAcls",
    "BrokerDescription",
    "BrokerStatistics",
    "BulkDelivery",
    "CallFailure",
    "ClusterDescription",
    "CommittedOffset",
    "Complaint",
    "Consumer",
    "ConsumerStatistics",
    "DeletedTopic",
    "DeliveredPiece",
    "Delivery",
    "DeserializedRecord",
    "DeserializingConsumer",
    "Election",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupStatistics",
    "HightideError",
    "LogDirectory",
    "OffsetReset",
    "PartitionDescription",
    "PartitionLag",
    "PartitionOutcome",
    "PartitionStatistics",
    "Producer",
    "ProducerKey",
    "ProducerState",
    "ProducerStatistics",
    "Quota",
    "RangeBatch",
    "RangeReader",
    "Reassignment",
    "ReassignmentListing",
    "Record",
    "RecordMetadata",
    "RecordRange",
    "ReplicaDescription",
    "ReplicaListing",
    "ResignedController",
    "SerializingProducer",
    "ServerAddress",
    "ServerDescription",
    "ServerSetting",
    "SettingOrigin",
    "SkippedBatches",
    "TopicDescription",
    "TopicPartition",
]

_HOME = {
    "AccessDecision": "acls",
    "Acl": "acls",
    "AclListing": "acls",
    "Admin": "admin",
    "AlteredAcls": "acls",
    "BrokerDescription": "records",
    "BrokerStatistics": "statistics",
    "BulkDelivery": "producing.delivery",
    "CallFailure": "statistics",
    "ClusterDescription": "records",
    "CommittedOffset": "groups",
    "Complaint": "records",
    "Consumer": "consumer",
    "ConsumerStatistics": "statistics",
    "DeletedTopic": "records",
    "DeliveredPiece": "records",
    "Delivery": "producing.delivery",
    "DeserializedRecord": "records",
    "DeserializingConsumer": "serializing",
    "Election": "records",
    "GroupDescription": "groups",
    "GroupListing": "groups",
    "GroupMember": "groups",
    "GroupStatistics": "statistics",
    "HightideError": "errors",
    "LogDirectory": "servers",
    "OffsetReset": "groups",
    "PartitionDescription": "records",
    "PartitionLag": "groups",
    "PartitionOutcome": "records",
    "PartitionStatistics": "statistics",
    "Producer": "producer",
    "ProducerKey": "producer_key",
    "ProducerState": "records",
    "ProducerStatistics": "statistics",
    "Quota": "quotas",
    "RangeBatch": "range_reader",
    "RangeReader": "range_reader",
    "Reassignment": "records",
    "ReassignmentListing": "records",
    "Record": "records",
    "RecordMetadata": "records",
    "RecordRange": "records",
    "ReplicaDescription": "records",
    "ReplicaListing": "records",
    "ResignedController": "servers",
    "SerializingProducer": "serializing",
    "ServerAddress": "servers",
    "ServerDescription": "servers",
    "ServerSetting": "servers",
    "SettingOrigin": "servers",
    "SkippedBatches": "consuming.corrupt_batches",
    "TopicDescription": "records",
    "TopicPartition": "records",
}


def __getattr__(name: str) -> Any:
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module 'hightide' has no attribute {name!r}")
    value = getattr(import_module(f"hightide.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
