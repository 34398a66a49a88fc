"""The additional columns of `-o wide` for topics: sizes on disk and the ends of logs, and what they lack.
Pure."""

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from hightide_cli.command_line.sizes import size_text
from hightide_cli.printing.rendering import printable, table

if TYPE_CHECKING:
    from hightide import ReplicaDescription, ReplicaListing, TopicDescription


def wide_listing(topics: "Sequence[TopicDescription]", listing: "ReplicaListing") -> str:
    """`topic ls -o wide`."""
    sizes: dict[bytes, int] = {}
    for each in listing.replicas:
        sizes[each.topic_id] = sizes.get(each.topic_id, 0) + each.size_bytes
    leaders = _leaders(listing.replicas)
    records: dict[bytes, int] = {}
    for each in leaders.values():
        records[each.topic_id] = records.get(each.topic_id, 0) + each.high_watermark - each.log_start_offset
    rows = [
        (
            *(topic.name, len(topic.partitions), topic.replication_factor),
            sum(each.leader is None for each in topic.partitions),
            sum(len(each.isr) < len(each.replicas) for each in topic.partitions),
            records.get(topic.topic_id, 0),
            size_text(sizes.get(topic.topic_id, 0)),
            topic.topic_id.hex(),
            " ".join(f"{name}={value}" for name, value in sorted(topic.configs.items())) or None,
        )
        for topic in topics
    ]
    headings = ["topic", "partitions", "replicas", "offline", "under-replicated", "records"]
    return table([*headings, "on disks", "id", "configs"], rows)


def wide_partitions(topic: "TopicDescription", listing: "ReplicaListing") -> str:
    """`topic describe -o wide`: also the start and the end of each leader's log, and the missing replicas."""
    leaders = _leaders(listing.replicas)
    held = [each for each in listing.replicas if each.topic_id == topic.topic_id]
    rows = []
    for part in topic.partitions:
        leader = leaders.get((topic.topic_id, part.partition))
        behind = [
            f"{each.broker_id}:{leader.log_end_offset - each.log_end_offset}"
            for each in held
            if leader is not None
            and each.partition.partition == part.partition
            and each.log_end_offset < leader.log_end_offset
        ]
        rows.append(
            (
                *(part.partition, part.leader, part.leader_epoch, part.partition_epoch),
                *(part.replicas, part.isr),
                None if leader is None else leader.log_start_offset,
                None if leader is None else leader.high_watermark,
                None if leader is None else leader.log_end_offset,
                None if leader is None else size_text(leader.size_bytes),
                " ".join(behind) or None,
            )
        )
    headings = [
        "partition",
        "leader",
        "epoch",
        "version",
        "replicas",
        "isr",
        "start",
        "high watermark",
        "end",
    ]
    return table([*headings, "size", "behind"], rows)


def silent_lines(listing: "ReplicaListing") -> list[str]:
    """The brokers whose replicas a listing lacks, a line for each."""
    return [
        f"broker {broker} does not answer, so its replicas are not counted: {printable(reason)}"
        for broker, reason in sorted(listing.silent_brokers.items())
    ]


def _leaders(replicas: "Iterable[ReplicaDescription]") -> "dict[tuple[bytes, int], ReplicaDescription]":
    """The leader of each partition. One that was deposed and does not know it yet has an older epoch."""
    leaders: dict[tuple[bytes, int], ReplicaDescription] = {}
    for each in replicas:
        key = (each.topic_id, each.partition.partition)
        known = leaders.get(key)
        if each.is_leader and (known is None or known.leader_epoch < each.leader_epoch):
            leaders[key] = each
    return leaders
