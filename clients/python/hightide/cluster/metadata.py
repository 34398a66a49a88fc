"""A client's knowledge of the cluster, and its requests for metadata.

Rules of this file: no clock, no I/O. All knowledge is a hint: a broker that is asked wrongly answers so, and
names the leader if it knows it. Knowledge of a partition never goes back to an older leader epoch of the same
topic id, see `LeadersSeen`.
"""

from collections import deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from hightide.batch.checksum import crc32c
from hightide.calls.backoff import Backoff
from hightide.calls.call import Call, MessageCall, Method
from hightide.calls.notice import Level, Notice
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.errors import (
    BrokersUnavailableError,
    HightideError,
    NotAuthenticatedError,
    TlsHandshakeError,
    TlsRefusedError,
    TokenNotSentError,
)
from hightide.records import PartitionDescription, TopicDescription, TopicPartition
from hightide.v1 import errors_pb2
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse
from hightide.v1.metadata_pb2 import TopicMetadata

# A broker has this long to answer before another one is asked. A paused broker must not cost more.
METADATA_TIMEOUT_MS: Final = 1_000
# Pauses between attempts, from the first to the longest. A client follows a leader that moves in an orderly
# way within milliseconds. After a leader's death it finds the new one well within a second of the election,
# and no broker is asked more than 25 times a second for long.
RETRY_PAUSE_MS: Final = 40
RETRY: Final = Backoff(initial_ms=5, maximum_ms=RETRY_PAUSE_MS)
# Pauses after rounds in which no broker could be asked. A client of a cluster that is down for long uses
# hardly any processor time, and still comes back within half a second.
UNREACHABLE: Final = Backoff(initial_ms=RETRY_PAUSE_MS, maximum_ms=500)
# A topic or a partition that has just been created may not be known yet to the broker that is asked.
UNKNOWN_TOPIC_PATIENCE_MS: Final = 2_000
# If no broker has answered for this long, the log tells. An ordinary failover leaves others that answer.
UNANSWERED_NOTICE_MS: Final = 5_000


@dataclass(frozen=True, slots=True)
class Leader:
    """The leader of a partition, its address, and its leader epoch."""

    broker_id: int
    address: str
    leader_epoch: int


def topic_description(topic: TopicMetadata) -> TopicDescription:
    """A topic of the contract as the SDK's own type."""
    return TopicDescription(
        name=topic.topic,
        topic_id=topic.topic_id,
        partitions=tuple(
            PartitionDescription(
                partition=partition.partition,
                leader=None if partition.leader < 0 else partition.leader,
                leader_epoch=partition.leader_epoch,
                replicas=tuple(partition.replicas),
                isr=tuple(partition.isr),
                partition_epoch=partition.partition_epoch,
            )
            for partition in topic.partitions
        ),
        configs=dict(topic.configs),
    )


class ClusterMetadata:
    """The metadata cache of one core or of one operation, guarded by its driver. All caches of one client
    share their `LeadersSeen`."""

    def __init__(self, bootstrap: tuple[str, ...], seen: LeadersSeen | None = None) -> None:
        assert bootstrap, "a client has at least one address to begin with"
        self.bootstrap = bootstrap
        self.seen = seen or LeadersSeen()
        self.brokers: dict[int, str] = {}
        self.topics: dict[str, TopicDescription] = {}
        self.missing: set[str] = set()
        self.cluster_id = ""
        self.controller_address: str | None = None
        self.coordinators: tuple[str | None, ...] = ()
        self.version = 0
        self.remembers_changes = False
        self._changes: dict[str, dict[int, tuple[int, str]]] = {}
        self._answered_in: dict[str, int] = {}
        self._heard: dict[str, bytes] = {}

    def update(self, answer: GetMetadataResponse, address: str = "") -> None:
        """Take over the answer of the broker at this address to GetMetadata.

        A topic of which it says what the answer before said is left as it is, in a fortieth of the time.
        While partitions wait for new leaders, a client asks up to 25 times a second.
        """
        self.version += 1
        self._answered_in[address] = self.version
        self.cluster_id = answer.cluster_id or self.cluster_id
        if answer.brokers:
            self.brokers = {broker.id: f"{broker.host}:{broker.port}" for broker in answer.brokers}
            known = self.brokers.values()
            self._answered_in = {at: number for at, number in self._answered_in.items() if at in known}
        if answer.HasField("controller") and answer.controller.port:
            self.controller_address = f"{answer.controller.host}:{answer.controller.port}"
        if answer.coordinators:
            self.coordinators = tuple(
                f"{each.host}:{each.port}" if each.host else None for each in answer.coordinators
            )
        for topic in answer.topics:
            if topic.error_code != errors_pb2.ERROR_CODE_UNSPECIFIED:
                self.missing.add(topic.topic)
                continue
            self.missing.discard(topic.topic)
            heard = topic.SerializeToString(deterministic=True)
            if self._heard.get(topic.topic) == heard:
                continue
            self._heard[topic.topic] = heard
            self._take_over(topic_description(topic))
            if self.remembers_changes:
                self._changes[topic.topic] = {
                    each.partition: (each.leader_epoch, each.traceparent) for each in topic.partitions
                }

    def forget(self, topic: str) -> None:
        """Drop a topic that must have been deleted. It is heard of anew if a broker names it again."""
        self.topics.pop(topic, None)
        self._heard.pop(topic, None)

    def answered_in(self, address: str) -> int:
        """The `version` that this broker's last answer produced, or 0 if it never answered."""
        return self._answered_in.get(address, 0)

    def _take_over(self, new: TopicDescription) -> None:
        self.topics[new.name] = replace(new, partitions=self.seen.take_over(new.topic_id, new.partitions))

    def note_leader(self, topic: str, partition: int, broker_id: int, leader_epoch: int) -> bool:
        """Take over the leader that a broker named in an error. Returns whether that was new."""
        known = self.topics.get(topic)
        if known is None or broker_id < 0 or partition >= len(known.partitions):
            return False
        old = known.partitions[partition]
        if leader_epoch <= old.leader_epoch:
            return False
        named = replace(old, leader=broker_id, leader_epoch=leader_epoch)
        (new,) = self.seen.take_over(known.topic_id, [named])
        partitions = (*known.partitions[:partition], new, *known.partitions[partition + 1 :])
        self.topics[topic] = replace(known, partitions=partitions)
        self.version += 1
        return True

    def leader_of(self, topic: str, partition: int) -> Leader | None:
        """The leader, or None while it or its address is not known."""
        known = self.topics.get(topic)
        if known is None or partition >= len(known.partitions):
            return None
        described = self.seen.newest(known.topic_id, known.partitions[partition])
        if described.leader is None:
            return None
        address = self.brokers.get(described.leader)
        return None if address is None else Leader(described.leader, address, described.leader_epoch)

    def traceparent_of(self, partition: TopicPartition, leader_epoch: int) -> str | None:
        """The trace of the change that began a leader epoch. Empty if the broker that was asked last knows of
        none; None while no broker was asked since. Only if `remembers_changes`."""
        epoch, traceparent = self._changes.get(partition.topic, {}).get(partition.partition, (-1, ""))
        if epoch == leader_epoch:
            return traceparent
        return "" if epoch > leader_epoch else None

    def coordinator_of(self, group: str) -> str | None:
        """The address of a group's coordinator, or None while none is known. A group belongs to the shard
        CRC-32C of its name modulo the number of shards (broker_service.proto, GetMetadataResponse)."""
        if not self.coordinators:
            return None
        return self.coordinators[crc32c(group.encode()) % len(self.coordinators)]


class MetadataSeeker:
    """The requests for metadata. Keeps one GetMetadata under way while news are wanted, and goes from address
    to address until one answers. `asked_at_ms` is when the newest answer was asked for. To a process that was
    paused meanwhile, the answer may look newer than it is. `notices` get a line when no broker has answered
    for a while: a poll() that finds nothing looks like a topic without news."""

    def __init__(
        self, cluster: ClusterMetadata, notices: deque[Notice] | None = None, logger: str = "hightide"
    ) -> None:
        self.cluster = cluster
        self._notices = notices
        self._logger = logger
        self._is_told = False
        self.topics: set[str] = set()
        self.failures: dict[str, HightideError] = {}
        self.failing_since_ms: float | None = None
        self.answer_count = 0
        self.asked_at_ms = -1e9
        self._answered_at_ms = -1e9
        self._answers_in_row = 0
        self._wanted = False
        self._not_before_ms = 0.0
        self._rounds_failed = 0
        self._rest_until_ms = 0.0
        self._under_way: MessageCall[GetMetadataResponse] | None = None
        self._under_way_since_ms = 0.0
        self._suspects: dict[str, None] = {}
        self._turn = 0

    def want(self, topics: Iterable[str] = (), *, not_before_ms: float = 0.0) -> None:
        """Ask for news of all topics of interest, and of these from now on. Requests that arrive while a call
        is under way are kept, because its answer may be older than they are."""
        self.topics.update(topics)
        self._not_before_ms = min(self._not_before_ms, not_before_ms) if self._wanted else not_before_ms
        self._wanted = True

    def want_again(self, topics: Iterable[str] = (), *, now_ms: float) -> None:
        """Ask again after a pause that grows, because the last answer was not enough."""
        pause_ms = RETRY.pause_ms(self._answers_in_row)
        self.want(topics, not_before_ms=max(now_ms, self._answered_at_ms + pause_ms))

    def forget(self, topic: str) -> None:
        """Drop the topic from those of interest."""
        self.topics.discard(topic)

    def suspect(self, address: str) -> None:
        """Ask other addresses first until this one, which failed, answers again."""
        self._suspects[address] = None

    @property
    def wake_at_ms(self) -> float | None:
        """The time at which `poll` has work to do, if nothing else happens."""
        return self._ask_at_ms if self._wanted and self._under_way is None else None

    @property
    def _ask_at_ms(self) -> float:
        # However often news are wanted, nobody is asked while no broker can be.
        return max(self._not_before_ms, self._rest_until_ms)

    def poll(self, now_ms: float) -> MessageCall[GetMetadataResponse] | None:
        """The call to make now, if any."""
        if not self._wanted or self._under_way is not None or now_ms < self._ask_at_ms:
            return None
        self._wanted = False
        candidates = self.candidates()
        address = candidates[self._turn % len(candidates)]
        self._turn += 1
        self._under_way_since_ms = now_ms
        self._under_way = MessageCall(
            address,
            Method.GET_METADATA,
            METADATA_TIMEOUT_MS,
            GetMetadataRequest(topics=sorted(self.topics)),
            GetMetadataResponse,
        )
        return self._under_way

    def candidates(self) -> list[str]:
        """Every address worth asking. Those that failed last are left out if there are others."""
        every = list(dict.fromkeys((*self.cluster.brokers.values(), *self.cluster.bootstrap)))
        return [address for address in every if address not in self._suspects] or every

    def answered(self, call: Call[Any], answer: GetMetadataResponse, now_ms: float) -> None:
        """Handle a broker's answer."""
        assert call is self._under_way, "only one call is under way"
        self._under_way = None
        self.failures.clear()
        self.failing_since_ms = None
        self._rounds_failed = 0
        self._is_told = False
        self.answer_count += 1
        self.asked_at_ms = self._under_way_since_ms
        is_fresh = now_ms - self._answered_at_ms > 5 * RETRY_PAUSE_MS
        self._answers_in_row = 1 if is_fresh else self._answers_in_row + 1
        self._answered_at_ms = now_ms
        self._suspects.pop(call.address, None)
        self.cluster.update(answer, call.address)

    def failed(self, call: Call[Any], error: HightideError, now_ms: float) -> None:
        """Handle a failed call: the next address is asked at once, and after a whole round, after a pause
        that grows with each round."""
        assert call is self._under_way, "only one call is under way"
        self._under_way = None
        self.failures[call.address] = error
        if self.failing_since_ms is None:
            self.failing_since_ms = now_ms
        self._tell(now_ms - self.failing_since_ms)
        self.suspect(call.address)
        every = {*self.cluster.brokers.values(), *self.cluster.bootstrap}
        if self._suspects.keys() >= every:
            self._suspects.clear()
            self._rounds_failed += 1
            self._rest_until_ms = now_ms + UNREACHABLE.pause_ms(self._rounds_failed)
        self.want()

    def _tell(self, unanswered_ms: float) -> None:
        """Write one line about each time without answers that lasts."""
        if self._notices is None or self._is_told or unanswered_ms < UNANSWERED_NOTICE_MS:
            return
        self._is_told = True
        text = f"{self.unavailable(UNANSWERED_NOTICE_MS).message}; trying on"
        self._notices.append(Notice(self._logger, Level.WARNING, text))

    def refusal(self) -> HightideError | None:
        """The error that needs no waiting, see `final_refusal`."""
        return final_refusal(self.cluster, self.failures) if self.failures else None

    def unavailable(self, budget_ms: float) -> BrokersUnavailableError:
        """The error for no answer at all, with every address and its failure."""
        return brokers_unavailable(self.cluster, self.failures, budget_ms)


def final_refusal(cluster: ClusterMetadata, failures: Mapping[str, HightideError]) -> HightideError | None:
    """The error to raise at once: every bootstrap address refuses the token of this client, or TLS fails
    there for a reason that does not pass and no server ever answered this client. None as long as waiting may
    help."""
    said = [
        error for each in cluster.bootstrap if _is_final(error := failures.get(each)) and error is not None
    ]
    if len(said) < len(cluster.bootstrap):
        return None
    of_tokens = [error for error in said if not isinstance(error, TlsHandshakeError)]
    if of_tokens:
        return of_tokens[0]
    return TlsRefusedError("\n".join(error.message for error in said), addresses=cluster.bootstrap)


def _is_final(error: HightideError | None) -> bool:
    if isinstance(error, TlsHandshakeError):
        return error.is_final
    return isinstance(error, NotAuthenticatedError | TokenNotSentError)


def brokers_unavailable(
    cluster: ClusterMetadata, failures: Mapping[str, HightideError], budget_ms: float
) -> BrokersUnavailableError:
    """The error that names every address that was tried, whether given or advertised, and its failure."""
    said = []
    for address, error in failures.items():
        origin = "bootstrap" if address in cluster.bootstrap else "advertised by a broker"
        message = error.message
        # Most messages begin with the address, which is named only once.
        rest = message.removeprefix(address) if message.startswith(f"{address} ") else f": {message}"
        said.append(f"{address} ({origin}){rest}")
    text = "; ".join(said) or f"{', '.join(cluster.bootstrap)}: no answer"
    return BrokersUnavailableError(
        f"no broker answered within {budget_ms / 1000:g} s: {text}",
        addresses=tuple(failures) or cluster.bootstrap,
    )
