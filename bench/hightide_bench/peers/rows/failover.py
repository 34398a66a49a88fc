"""The rows in which the leader of everything is killed, told to stop, or stands still."""

import signal
import statistics
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from itertools import pairwise
from typing import ClassVar, Final

from hightide_local.errors import ClusterError

from hightide_bench.loads.load_worker import LoadWorker
from hightide_bench.peers.clusters.kafka_properties import KafkaSettings
from hightide_bench.peers.clusters.peer_cluster import PeerCluster, topic_sizes
from hightide_bench.peers.rows.row import HIGHTIDE, KAFKA_DEFAULT, Entrant, Figure, Figures, Row, Stage

#: A wait is measured for so long and no longer; what is above it means that nothing came back.
LIMIT_S: Final = 60.0
#: Every partition has acknowledged a record in the last so many ms, in so many looks: it is over.
_FRESH_MS: Final = 400.0
_FRESH_LOOKS: Final = 6
_LOOK_S: Final = 0.25
_SETTLE_S: Final = 3.0
_WHOLE_S: Final = 300.0
_ASK_AGAIN_S: Final = 20.0
_LOADED: Final = 6
_VICTIM: Final = 1
_SHORT_SESSION: Final = KafkaSettings(session_timeout_ms=500)
_SIGNALS: Final = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}


class Failover(Row):
    """Broker 1 leads all partitions. A client writes to 6 of them when the signal comes. The figure is the
    longest time in which one of them acknowledged nothing."""

    figures: tuple[Figure, ...] = (
        Figure("unavailable_ms_max", "longest silence ms", "lower"),
        Figure("unavailable_ms_p50", "median of 6 partitions ms", "lower"),
    )
    entrants = (HIGHTIDE, KAFKA_DEFAULT)
    warms_up: ClassVar[bool] = False

    def __init__(self, how: str, kafka: KafkaSettings, partitions: int | None = None) -> None:
        """`partitions` None: as many as the plan says, for the rows with many."""
        short = kafka.session_timeout_ms is not None
        many = partitions is None
        self.name = f"failover{'-many' if many else ''}-{how}{'-500ms' if short and not many else ''}"
        size = "many partitions" if many else f"{partitions} partitions"
        session = "500 ms" if short else "default"
        self.title = f"failover, {_SIGNALS[how].name}, {size}, Kafka's session {session}"
        self.kafka = kafka
        self._signal, self._partitions = _SIGNALS[how], partitions

    @contextmanager
    def open(self, stage: Stage) -> Iterator[Callable[[Entrant], Figures]]:
        """Make topics that broker 1 leads, with a record in each partition."""
        count = stage.plan.partitions if self._partitions is None else self._partitions
        with ExitStack() as stack:
            sizes = topic_sizes(count)
            topics = [
                stack.enter_context(stage.topic(f"{self.name}-{number}", size, assignment=_assignment(size)))
                for number, size in enumerate(sizes)
            ]
            for entrant in self.entrants:
                for topic, size in zip(topics, sizes, strict=True):
                    stage.run(entrant, "fill_load", topics=[topic], partitions=size)
            all_partitions = [
                (topic, partition)
                for topic, size in zip(topics, sizes, strict=True)
                for partition in range(size)
            ]
            yield lambda entrant: self._measure(stage, entrant, topics, spread(all_partitions, _LOADED))

    def _measure(
        self, stage: Stage, entrant: Entrant, topics: Sequence[str], loaded: Sequence[tuple[str, int]]
    ) -> Figures:
        cluster = stage.clusters[entrant.system]
        until_led_as_at_first(cluster, topics)
        time.sleep(_SETTLE_S)
        # More than 6 partitions: the load is to be negligible.
        interval_ms = 5 if self._partitions is not None else 10
        with stage.worker(entrant, "failover_load", partitions=loaded, interval_ms=interval_ms) as load:
            load.wait_until_ready()
            # A busy Kafka may have moved leaders since.
            until_led_as_at_first(cluster, topics)
            try:
                struck_s = time.monotonic()
                cluster.strike(_VICTIM, self._signal)
                _until_fresh(load, struck_s)
                ended_s = time.monotonic()
                told = load.ask("end")
            finally:
                if self._signal is signal.SIGSTOP:
                    cluster.strike(_VICTIM, signal.SIGKILL)
        cluster.revive(_VICTIM)
        waits = silences_ms(told["acknowledged_s"], struck_s, ended_s)
        return {"unavailable_ms_max": max(waits), "unavailable_ms_p50": statistics.median(waits)}


def _assignment(partitions: int) -> list[list[int]]:
    """Return the replicas of so many partitions: all led by the victim; the other two take over half each."""
    return [[_VICTIM, 2, 3] if number % 2 else [_VICTIM, 3, 2] for number in range(partitions)]


def spread(partitions: Sequence[tuple[str, int]], count: int) -> list[tuple[str, int]]:
    """Return so many of the partitions, from the first to the last at even distances."""
    if len(partitions) <= count:
        return list(partitions)
    return [partitions[place * (len(partitions) - 1) // (count - 1)] for place in range(count)]


def silences_ms(acknowledged_s: Sequence[Sequence[float]], struck_s: float, ended_s: float) -> list[float]:
    """Return for each partition the longest time without an acknowledgement, from the last one before the
    signal until the end."""
    waits = []
    for times in acknowledged_s:
        before = [at_s for at_s in times if at_s <= struck_s]
        after = [at_s for at_s in times if struck_s < at_s < ended_s]
        marks = [before[-1] if before else struck_s, *after, ended_s]
        waits.append(max(later - earlier for earlier, later in pairwise(marks)) * 1000)
    return waits


def until_led_as_at_first(
    cluster: PeerCluster, topics: Sequence[str], *, ask_again_s: float = _ASK_AGAIN_S
) -> None:
    """Wait until every partition is whole, and led by its preferred leader again: the round before moved the
    leaders, and not all to one broker. A refused election is asked for again after `ask_again_s`. Raises
    ClusterError if it takes too long."""
    ends_s, asks_at_s = time.monotonic() + _WHOLE_S, 0.0
    refused = ""
    while True:
        partitions = cluster.partitions(topics)
        moved = [each for each in partitions if each.leader != each.preferred]
        whole = all(each.is_whole for each in partitions)
        if whole and not moved:
            return
        now_s = time.monotonic()
        if now_s > ends_s:
            raise ClusterError(
                f"{cluster.system} after {_WHOLE_S:.0f} s: {len(moved)} of {len(partitions)} partitions are"
                f" not led by their preferred leader; {'all' if whole else 'not all'} replicas are in sync"
                f"{refused}"
            )
        if whole and now_s > asks_at_s:
            # With 10,000 partitions the controller of Kafka 4.3.1 may step down ("Append failed because there
            # are no records"), most likely when it knows of the leaders already and the brokers do not yet.
            try:
                cluster.elect_preferred_leaders(moved)
            except ClusterError as error:
                refused = f"; {error}"
            asks_at_s = time.monotonic() + ask_again_s
        time.sleep(_LOOK_S)


def _until_fresh(load: LoadWorker, struck_s: float) -> None:
    """Wait until every partition acknowledges again, but not longer than the limit."""
    looks = 0
    time.sleep(1.0)
    while looks < _FRESH_LOOKS and time.monotonic() - struck_s < LIMIT_S:
        time.sleep(_LOOK_S)
        looks = looks + 1 if load.ask("tell")["silent_ms"] < _FRESH_MS else 0


ROWS: Final[tuple[Row, ...]] = (
    *(Failover(how, KafkaSettings(), 6) for how in _SIGNALS),
    *(Failover(how, _SHORT_SESSION, 6) for how in _SIGNALS),
    Failover("kill", _SHORT_SESSION),
)
