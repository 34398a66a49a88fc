"""The choice of brokers for partitions: balanced, and with as little moved as possible. Pure.

Replicas are spread within one of each other over the brokers asked for, and so are preferred leaders. Of all
ways to do so, one is taken that moves the fewest replicas, and then the fewest preferred leaders.

Replicas count, bytes do not: the plan that moves the fewest bytes would give a new broker all the partitions
that hardly hold any. Among equals the choice goes through the topics in turn, so that it takes partitions of
each.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from hightide_cli.reassign.even_spread import Spreadable, spread


class PlanError(Exception):
    """A request that cannot be planned; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Place:
    """The place of one partition: its replicas, the preferred leader first, its leader, and its size."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    leader: int | None
    size_bytes: int


@dataclass(frozen=True, slots=True)
class Move:
    """One partition whose replicas change; each new broker receives `size_bytes`."""

    topic: str
    partition: int
    before: tuple[int, ...]
    after: tuple[int, ...]
    leader: int | None
    size_bytes: int

    @property
    def arriving(self) -> tuple[int, ...]:
        """The brokers that get a replica."""
        return tuple(broker for broker in self.after if broker not in self.before)

    @property
    def leaving(self) -> tuple[int, ...]:
        """The brokers that delete their replica."""
        return tuple(broker for broker in self.before if broker not in self.after)

    @property
    def bytes_to_move(self) -> int:
        """The bytes to copy."""
        return self.size_bytes * len(self.arriving)


@dataclass(frozen=True, slots=True)
class BrokerBalance:
    """The effect of the plan on one broker. It receives `bytes_in`. As the leader of partitions that others
    get, it sends `bytes_out`."""

    broker_id: int
    replicas_before: int
    replicas_after: int
    leaders_before: int
    leaders_after: int
    bytes_in: int
    bytes_out: int


@dataclass(frozen=True, slots=True)
class Plan:
    """The moves, of all partitions that were looked at."""

    moves: tuple[Move, ...]
    brokers: tuple[BrokerBalance, ...]
    partition_count: int

    @property
    def bytes_to_move(self) -> int:
        """The bytes to copy in all."""
        return sum(move.bytes_to_move for move in self.moves)


def plan_onto(places: Iterable[Place], brokers: Iterable[int], replication_factor: int | None = None) -> Plan:
    """Spread these partitions over exactly these brokers. `replication_factor` is by default that of each
    partition now. Raises PlanError."""
    ordered = _in_turn(places)
    targets = tuple(sorted(set(brokers)))
    if replication_factor is not None and replication_factor < 1:
        raise PlanError(f"{replication_factor} replicas of a partition; it needs 1 at least")
    counts = [replication_factor or len(place.replicas) for place in ordered]
    _check_room(ordered, counts, targets)
    chosen = spread(
        [Spreadable(count, targets, place.replicas) for place, count in zip(ordered, counts, strict=True)],
        targets,
    )
    leaders = spread(
        [
            Spreadable(1, tuple(sorted(replicas)), place.replicas[:1])
            for place, replicas in zip(ordered, chosen, strict=True)
        ],
        targets,
    )
    return _plan(ordered, [_in_order(*each) for each in zip(ordered, chosen, leaders, strict=True)])


def plan_without(places: Iterable[Place], brokers: Iterable[int], leaving: int) -> Plan:
    """Take one broker's replicas to the others, and move nothing else. `brokers` are those that may take
    them. Raises PlanError."""
    ordered = _in_turn(places)
    targets = tuple(sorted(set(brokers) - {leaving}))
    affected = [place for place in ordered if leaving in place.replicas]
    staying = {place: [broker for broker in place.replicas if broker != leaving] for place in ordered}
    room = {place: tuple(broker for broker in targets if broker not in staying[place]) for place in affected}
    for place in affected:
        if not room[place]:
            raise PlanError(
                f"{place.topic}-{place.partition} has {len(place.replicas)} replicas, and no live broker but "
                f"{leaving} is left for one of them: start another broker, or plan fewer replicas"
            )
    arriving = spread(
        [Spreadable(1, room[place], ()) for place in affected],
        targets,
        Counter(broker for place in ordered for broker in staying[place]),
    )
    chosen = {place: {*staying[place], *new} for place, new in zip(affected, arriving, strict=True)}
    led = [place for place in affected if place.replicas[0] == leaving]
    leaders = spread(
        [
            Spreadable(
                1, tuple(broker for broker in targets if broker in chosen[place]), tuple(staying[place])
            )
            for place in led
        ],
        targets,
        Counter(place.replicas[0] for place in ordered if place.replicas[0] != leaving),
    )
    new_leaders = dict(zip(led, leaders, strict=True))
    return _plan(
        ordered,
        [
            _in_order(place, chosen[place], new_leaders.get(place, {place.replicas[0]}))
            if place in chosen
            else place.replicas
            for place in ordered
        ],
    )


def plan_by_hand(places: Iterable[Place], targets: Mapping[tuple[str, int], Sequence[int]]) -> Plan:
    """The effect of putting these partitions onto these brokers. Each must be among the places."""
    ordered = list(places)
    return _plan(ordered, [tuple(targets[place.topic, place.partition]) for place in ordered])


def _in_turn(places: Iterable[Place]) -> list[Place]:
    """The first partition of each topic, then the second of each."""
    return sorted(places, key=lambda place: (place.partition, place.topic))


def _check_room(places: Sequence[Place], counts: Sequence[int], brokers: Sequence[int]) -> None:
    for place, count in zip(places, counts, strict=True):
        if count > len(brokers):
            raise PlanError(
                f"{count} replicas of {place.topic}-{place.partition} need as many brokers, and "
                f"{len(brokers)} {'is' if len(brokers) == 1 else 'are'} given "
                f"({', '.join(map(str, brokers)) or 'none'}): name more, or plan fewer replicas"
            )


def _in_order(place: Place, chosen: set[int], leader: set[int]) -> tuple[int, ...]:
    """The preferred leader, then the brokers that had a replica before, in their order, then those that get
    one."""
    (first,) = leader
    kept = [broker for broker in place.replicas if broker in chosen and broker != first]
    new = sorted(broker for broker in chosen if broker not in place.replicas and broker != first)
    return (first, *kept, *new)


def _plan(places: Sequence[Place], after: Sequence[tuple[int, ...]]) -> Plan:
    moves = [
        Move(place.topic, place.partition, place.replicas, replicas, place.leader, place.size_bytes)
        for place, replicas in zip(places, after, strict=True)
        if replicas != place.replicas
    ]
    moves.sort(key=lambda move: (move.topic, move.partition))
    before_of = Counter(broker for place in places for broker in place.replicas)
    after_of = Counter(broker for replicas in after for broker in replicas)
    led_before = Counter(place.replicas[0] for place in places)
    led_after = Counter(replicas[0] for replicas in after)
    arriving: Counter[int] = Counter()
    sent: Counter[int] = Counter()
    for move in moves:
        arriving.update(dict.fromkeys(move.arriving, move.size_bytes))
        if move.leader is not None:
            sent[move.leader] += move.bytes_to_move
    return Plan(
        moves=tuple(moves),
        brokers=tuple(
            BrokerBalance(
                broker,
                before_of[broker],
                after_of[broker],
                led_before[broker],
                led_after[broker],
                arriving[broker],
                sent[broker],
            )
            for broker in sorted(before_of.keys() | after_of.keys())
        ),
        partition_count=len(places),
    )
