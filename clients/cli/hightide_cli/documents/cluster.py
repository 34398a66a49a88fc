"""The shapes of the documents about a cluster's processes and their settings."""

from collections.abc import Sequence
from typing import Annotated, TypedDict

from hightide_cli.documents.values import (
    Reason,
    Throttle,
)


class BrokerDocument(TypedDict):
    """A broker as the controller sees it."""

    id: Annotated[int, "the broker's id"]
    address: Annotated[str | None, "where it is; null where it is not registered"]
    alive: Annotated[bool, "whether the controller counts on it"]
    broker_epoch: Annotated[int, "of its registration"]
    leads: Annotated[int, "how many partitions it leads"]
    replicas: Annotated[int, "how many it holds"]


class ServerDocument(TypedDict):
    """A process's report about itself."""

    version: Annotated[str, "of its software"]
    started_at_ms: Annotated[int, "milliseconds since 1970"]
    advertised: Annotated[str, "the address that it tells others"]
    external_advertised: Annotated[str | None, "the one for clients from outside; null where there is none"]
    zookeeper_session_timeout_ms: Annotated[int, "as ZooKeeper granted it"]
    round_trip_ms: Annotated[float, "of this question"]


class LogDirectoryDocument(TypedDict):
    """A log directory and its room."""

    broker: Annotated[int, "the broker's id"]
    log_directory: Annotated[int | None, "counts the broker's directories; null where it does not answer"]
    path: Annotated[str | None, "on the broker's machine; null where it is not known"]
    state: Annotated[str, "how it is"]
    free_bytes: Annotated[int | None, "on its disk; null where it is not known"]
    total_bytes: Annotated[int | None, "of its disk; null where it is not known"]
    message: Reason


class ControllerDocument(TypedDict):
    """An active controller."""

    id: Annotated[int, "the controller's id"]
    address: Annotated[str, "where it is"]
    epoch: Annotated[int, "counts the controllers' elections"]


class ClusterDocument(TypedDict):
    """A cluster as the controller sees it."""

    cluster_id: Annotated[str, "the cluster's id"]
    controller: Annotated[ControllerDocument, "the active one"]
    brokers: Annotated[Sequence[BrokerDocument], "by id"]
    topics: Annotated[int, "how many there are"]
    partitions: Annotated[int, "how many there are"]
    offline_partitions: Annotated[int, "without a leader"]
    under_replicated_partitions: Annotated[int, "with a replica that is not in sync"]
    under_min_isr_partitions: Annotated[int, "that acks=all cannot write to"]


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
    controller: Annotated[int | None, "the id of the active one; null where there is none"]
    brokers: Annotated[int, "how many are known"]
    dead_brokers: Annotated[Sequence[int], "those that are not alive"]
    silent_brokers: Annotated[Sequence[int], "those that are registered and do not answer"]
    topics: Annotated[int, "how many there are"]
    partitions: Annotated[int, "how many there are"]
    offline_partitions: Annotated[int, "without a leader"]
    under_replicated_partitions: Annotated[int, "with a replica that is not in sync"]
    under_min_isr_partitions: Annotated[int, "that acks=all cannot write to"]
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


class ContextDocument(TypedDict):
    """A cluster by its name."""

    context: Annotated[str, "its name"]
    bootstrap: Annotated[str, "the brokers' addresses"]
    zookeeper: Annotated[str | None, "its ZooKeeper; null where none is known"]
    selected: Annotated[bool, "whether it is the one that is meant unless said"]


class TopicSettingDocument(TypedDict):
    """A setting of a topic."""

    name: Annotated[str, "as in min.insync.replicas"]
    value: Annotated[str | None, "what holds; null where nothing does"]
    default: Annotated[str | None, "what holds unless it is set; null where there is none"]
    origin: Annotated[str, "where the value comes from"]
    meaning: Annotated[str | None, "a sentence; null of settings that this command does not know"]


class ServerSettingDocument(TypedDict):
    """A setting of a server."""

    name: Annotated[str, "as on its command line, as in log-level"]
    value: Annotated[str | None, "what holds; null where nothing does"]
    default: Annotated[str | None, "what holds unless it is told; null where nothing does"]
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
