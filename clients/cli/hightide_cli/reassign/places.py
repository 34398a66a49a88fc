"""The places of partitions in a cluster, from which plans are made."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from hightide_cli.printing.rendering import printable
from hightide_cli.reassign.plan import Place

if TYPE_CHECKING:
    from hightide import Admin


def places_in(admin: "Admin", topics: Sequence[str] | None) -> list[Place]:
    """The places of these topics' partitions, or (None) of all. A partition that is being moved counts as at
    its target. Raises HightideError."""
    from hightide import TopicPartition

    described = admin.describe_topics(topics)
    moving = {each.partition: each for each in admin.list_reassignments().reassignments}
    sizes: dict[tuple[bytes, int], int] = {}
    led: dict[tuple[bytes, int], int] = {}
    held = admin.describe_replicas([each.name for each in described])
    for broker_id, reason in held.silent_brokers.items():
        click.echo(f"warning: broker {broker_id} does not say what it holds: {printable(reason)}", err=True)
    for replica in held.replicas:
        at = (replica.topic_id, replica.partition.partition)
        sizes[at] = max(sizes.get(at, 0), replica.size_bytes)
        if replica.is_leader:
            led[at] = replica.size_bytes
    places = []
    for topic in described:
        for each in topic.partitions:
            at = (topic.topic_id, each.partition)
            move = moving.get(TopicPartition(topic.name, each.partition))
            replicas = each.replicas if move is None else move.target
            size_bytes = led.get(at, sizes.get(at, 0))
            places.append(Place(topic.name, each.partition, replicas, each.leader, size_bytes))
    return places


def check_known(admin: "Admin", broker_id: int) -> None:
    """Check that a broker is registered or holds replicas. Raises click.ClickException, HightideError."""
    known = [each.broker_id for each in admin.describe_cluster().brokers]
    if broker_id not in known:
        there = ", ".join(map(str, known)) or "none"
        raise click.ClickException(f"there is no broker {broker_id}; there are: {there}")


def live_brokers(admin: "Admin", asked_for: Iterable[int] | None = None) -> tuple[int, ...]:
    """The requested brokers, all of which must be alive, or (None) all live brokers. Raises
    click.ClickException, HightideError."""
    known = {each.broker_id: each.alive for each in admin.describe_cluster().brokers}
    alive = tuple(sorted(broker for broker, is_alive in known.items() if is_alive))
    if asked_for is None:
        return alive
    asked = tuple(asked_for)
    for broker in asked:
        if asked.count(broker) > 1:
            raise click.ClickException(f"broker {broker} is named twice: name each broker once")
        if broker not in alive:
            state = "is not alive" if broker in known else "is not known"
            raise click.ClickException(
                f"broker {broker} {state}; alive are {', '.join(map(str, alive))}: name others, or start it"
            )
    return asked
