"""The shapes of the documents about a cluster's processes and their settings."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from hightide_cli.documents.values import GroupName, Reason, Throttle
from hightide_cli.documents.view import Shows

TopicCount = Annotated[int, Shows("topic_count"), "how many there are"]
PartitionCount = Annotated[int, Shows("partition_count"), "how many there are"]
OfflineCount = Annotated[int, Shows("offline_partition_count"), "without a leader"]
UnderReplicatedCount = Annotated[
    int, Shows("under_replicated_partition_count"), "with a replica that is not in sync"
]
Coordination = Annotated[str, 'what decides who leads: "controller", or "leaders" where there is none']
UnderMinIsrCount = Annotated[int, Shows("under_min_isr_partition_count"), "that acks=all cannot write to"]


class BrokerDocument(TypedDict):
    """A broker as the controller sees it."""

    id: Annotated[int, Shows("broker_id"), "the broker's id"]
    address: Annotated[str | None, "where it is; null where it is not registered"]
    alive: Annotated[bool, "whether the controller counts on it"]
    broker_epoch: Annotated[int, "of its registration"]
    leads: Annotated[int, Shows("leader_count"), "how many partitions it leads"]
    replicas: Annotated[int, Shows("replica_count"), "how many it holds"]


class ServerDocument(TypedDict):
    """A process's report about itself."""

    version: Annotated[str, "of its software"]
    started_at_ms: Annotated[int, "milliseconds since 1970"]
    advertised: Annotated[str, "the address that clients and other processes get"]
    external_advertised: Annotated[
        str | None,
        Shows("external_advertised", or_null=True),
        "the one for clients from outside; null where there is none",
    ]
    zookeeper_session_timeout_ms: Annotated[int, "as ZooKeeper granted it"]
    round_trip_ms: Annotated[float, Shows("round_trip_ms", decimals=2), "of this question"]


class LogDirectoryDocument(TypedDict):
    """A log directory and its room."""

    broker: Annotated[int, Shows("broker_id"), "the broker's id"]
    log_directory: Annotated[
        int | None, Shows("number"), "counts the broker's directories; null where it does not answer"
    ]
    path: Annotated[
        str | None, Shows("path", or_null=True), "on the broker's machine; null where it is not known"
    ]
    state: Annotated[str, "how it is"]
    free_bytes: Annotated[int | None, "on its disk; null where it is not known"]
    total_bytes: Annotated[int | None, "of its disk; null where it is not known"]
    message: Reason


class ControllerDocument(TypedDict):
    """An active controller."""

    id: Annotated[int, Shows("controller_id"), "the controller's id"]
    address: Annotated[str, Shows("controller_address"), "where it is"]
    epoch: Annotated[int, Shows("controller_epoch"), "counts the controllers' elections"]


class ClusterDocument(TypedDict):
    """A cluster as the controller sees it."""

    cluster_id: Annotated[str, "the cluster's id"]
    coordination: Coordination
    controller: Annotated[
        ControllerDocument, Shows(""), "the active one; with leaders, the broker that answered, and epoch 0"
    ]
    brokers: Annotated[Sequence[BrokerDocument], "by id"]
    topics: TopicCount
    partitions: PartitionCount
    offline_partitions: OfflineCount
    under_replicated_partitions: UnderReplicatedCount
    under_min_isr_partitions: UnderMinIsrCount


class FailedDirectoryDocument(TypedDict):
    """A log directory that its broker cannot use."""

    broker: Annotated[int, "the broker's id"]
    log_directory: Annotated[int, "counts the broker's directories"]
    replicas: Annotated[int, "how many live there"]


class ComplaintDocument(TypedDict):
    """A complaint of the controller."""

    subject: Annotated[str, "a znode, a partition or a broker"]
    message: Annotated[str, "a sentence with the next step"]


class HealthDocument(TypedDict):
    """The health of a cluster."""

    healthy: Annotated[bool, "whether all is well"]
    problems: Annotated[Sequence[str], "what is not, a sentence each, the worst first"]
    coordination: Coordination
    controller: Annotated[int | None, "the id of the active one; null where there is none"]
    brokers: Annotated[int, "how many are known"]
    dead_brokers: Annotated[Sequence[int], "those that are not alive"]
    silent_brokers: Annotated[Sequence[int], "those that are registered and do not answer"]
    topics: TopicCount
    partitions: PartitionCount
    offline_partitions: OfflineCount
    under_replicated_partitions: UnderReplicatedCount
    under_min_isr_partitions: UnderMinIsrCount
    not_preferred_leaders: Annotated[int, "partitions that another than their preferred broker leads"]
    moves_under_way: Annotated[int, "reassignments that are not done"]
    coordinators: Annotated[
        Sequence[str | None], "the active one of each shard of the groups; null where there is none"
    ]
    silent_coordinators: Annotated[Sequence[str], "the addresses of those that do not answer"]
    throttle_bytes_per_s: Throttle
    failed_log_directories: Annotated[
        Sequence[FailedDirectoryDocument], "those that their brokers cannot use"
    ]
    complaints: Annotated[Sequence[ComplaintDocument], "what the controller cannot make sense of"]


class TrafficDocument(TypedDict):
    """What is written to some partitions."""

    records_per_s: Annotated[
        float | None, Shows("records_per_s", decimals=1), "written; null at the first look"
    ]
    bytes_per_s: Annotated[float | None, Shows("bytes_per_s", decimals=1), "written; null at the first look"]
    size_bytes: Annotated[int, "of one replica of each partition"]


class GroupPaceDocument(TypedDict):
    """How fast a group reads."""

    group: Annotated[GroupName, Shows("name")]
    state: Annotated[str, "as of `group ls`"]
    members: Annotated[int, Shows("member_count"), "how many there are"]
    lag: Annotated[int | None, "of all partitions together; null where it was not asked"]
    records_per_s: Annotated[float | None, Shows("records_per_s", decimals=1), "read; null at the first look"]


class LocalProcessDocument(TypedDict):
    """A process of the cluster on this machine."""

    name: Annotated[str, "as in broker-1"]
    address: Annotated[str | None, "where it listens; null where it listens nowhere"]
    pid: Annotated[int | None, "its process; null where it was never started"]
    running: Annotated[bool, "whether it runs"]


class ZnodeDocument(TypedDict):
    """A znode, but for its value."""

    path: Annotated[str, "of the znode"]
    version: Annotated[int, "counts its changes"]
    created_zxid: Annotated[int, "the transaction that made it"]
    modified_zxid: Annotated[int, "the transaction that changed it last"]
    ephemeral: Annotated[bool, Shows("is_ephemeral"), "whether it goes with its session"]
    children: Annotated[int, Shows("child_count"), "how many there are"]
    bytes: Annotated[int, Shows("size_bytes"), "of its value"]


class SecuredDocument(TypedDict):
    """The ACLs of a cluster's znodes."""

    znodes: Annotated[int, "how many the cluster has"]
    to_change: Annotated[int, "how many had another ACL than wanted when the command came to them"]
    open: Annotated[int, "how many of all anyone could change then"]
    locked_out: Annotated[Sequence[str], "znodes of live processes that do not show these credentials"]
    executed: Annotated[bool, "whether the ACLs were set; otherwise nothing was changed"]


class ContextDocument(TypedDict):
    """A cluster by its name."""

    context: Annotated[str, "its name"]
    bootstrap: Annotated[str, "the brokers' addresses"]
    zookeeper: Annotated[str | None, "its ZooKeeper; null where none is known"]
    tls_ca: Annotated[str | None, "the CAs that may sign the certificates of its servers; null for plaintext"]
    tls_certificate: Annotated[str | None, "the certificate for clients; null where none is needed"]
    tls_key: Annotated[str | None, "the key of that"]
    token_file: Annotated[str | None, "the file of the bearer token; null where none is needed"]
    selected: Annotated[bool, "whether commands use it by default"]


class TopicSettingDocument(TypedDict):
    """A setting of a topic."""

    name: Annotated[str, "as in min.insync.replicas"]
    value: Annotated[str | None, "what holds; null where nothing does"]
    default: Annotated[
        str | None, Shows("default", or_null=True), "what holds unless it is set; null where there is none"
    ]
    origin: Annotated[str, "where the value comes from"]
    meaning: Annotated[
        str | None,
        Shows("meaning", or_null=True),
        "a sentence; null of settings that this command does not know",
    ]


class ServerSettingDocument(TypedDict):
    """A setting of a server."""

    name: Annotated[str, "as on its command line, as in log-level"]
    value: Annotated[str | None, Shows("value", or_null=True), "what holds; null where nothing does"]
    default: Annotated[str | None, Shows("default", or_null=True), "the default; null if there is none"]
    origin: Annotated[str, "default, environment or argument"]
    variable: Annotated[str, "of its environment, which says the same"]
    meaning: Annotated[str, "a sentence"]


class ServerSettingsDocument(TypedDict):
    """The settings of a server."""

    service: Annotated[str, "broker, controller or coordinator"]
    instance: Annotated[str | None, "its id; null where it is not known"]
    address: Annotated[str, "where it was asked"]
    error: Annotated[str | None, "why it does not answer; null where it does"]
    settings: Annotated[Sequence[ServerSettingDocument], "by name"]


class CertificateDocument(TypedDict):
    """A certificate."""

    path: Annotated[str, "the file"]
    subject: Annotated[str, "whose it is, as RFC 4514 writes names"]
    identity: Annotated[str | None, "whose it is, as in spiffe://hightide/broker/1; null where it says none"]
    hosts: Annotated[Sequence[str], "the names and IP addresses that it is for"]
    issuer: Annotated[str, "who signed it"]
    valid_from: Annotated[str, "ISO 8601"]
    valid_until: Annotated[str, "ISO 8601"]
    is_valid: Annotated[bool, "whether it is valid now, by the clock of this machine"]


class FindingDocument(TypedDict):
    """The result of one check."""

    check: Annotated[str, "what was looked at"]
    verdict: Annotated[str, "ok, warn or fail"]
    message: Annotated[str, "a sentence"]
    next_step: Annotated[str | None, "what to do; null where nothing is"]


class FindingsDocument(TypedDict):
    """The results of all checks."""

    verdict: Annotated[str, "the worst of all: ok, warn or fail"]
    findings: Annotated[Sequence[FindingDocument], "in the order of the checks"]
