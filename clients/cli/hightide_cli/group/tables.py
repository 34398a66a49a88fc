"""Groups as tables for people and as JSON for programs."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING

from hightide_cli.command_line.sizes import milliseconds_text
from hightide_cli.documents.groups import ListedGroupDocument
from hightide_cli.documents.view import view
from hightide_cli.group.lag_table import lag_document, lag_table
from hightide_cli.printing.rendering import Json, properties, table

if TYPE_CHECKING:
    from hightide import GroupDescription, GroupListing, GroupMember, PartitionLag, TopicPartition

    from hightide_cli.documents.groups import (
        GroupDocument,
        MemberDocument,
        PartitionResetDocument,
        ResetDocument,
    )
    from hightide_cli.group.reset_plan import PlannedReset


def listing_table(groups: Sequence["GroupListing"]) -> str:
    """`group ls`."""
    rows = [
        (each.group, each.state, each.member_count, each.generation, each.coordinator_address)
        for each in groups
    ]
    return table(["group", "state", "members", "generation", "coordinator"], rows)


def listing_document(groups: Sequence["GroupListing"]) -> dict[str, Json]:
    """`group ls -o json`."""
    return {"groups": [view(ListedGroupDocument, each) for each in groups]}


def description_text(group: "GroupDescription", lines: Sequence["PartitionLag"]) -> str:
    """`group describe`: the group, its members, its partitions."""
    rebalances = f"{group.rebalance_count} since this coordinator took over"
    if group.rebalance_count:
        rebalances += f", the last took {milliseconds_text(group.last_rebalance_ms)}"
    coordinator = f"{group.coordinator_id} at {group.coordinator_address}, epoch {group.coordinator_epoch}"
    parts = [
        properties(
            [
                ("group", group.group),
                ("state", group.state),
                ("reason", group.reason or None),
                ("generation", group.generation),
                ("assignor", group.assignor or None),
                ("coordinator", coordinator),
                ("rebalances", rebalances),
                ("members", len(group.members)),
                ("lag", sum(line.lag or 0 for line in lines)),
            ]
        )
    ]
    if group.members:
        rows = [
            (
                each.consumer_id,
                each.instance_id or None,
                each.peer,
                milliseconds_text(each.session_timeout_ms),
                each.is_connected,
                subscription_text(each),
                partitions_text(each.partitions) or None,
            )
            for each in group.members
        ]
        parts.append(
            table(["consumer", "instance", "host", "session", "connected", "subscribed", "partitions"], rows)
        )
    if lines:
        parts.append(lag_table(lines))
    return "\n\n".join(parts)


def description_document(group: "GroupDescription", lines: Sequence["PartitionLag"]) -> "GroupDocument":
    """`group describe -o json`."""
    members: list[MemberDocument] = [
        {
            "consumer": each.consumer_id,
            "instance": each.instance_id or None,
            "host": each.peer,
            "session_timeout_ms": each.session_timeout_ms,
            "connected": each.is_connected,
            "topics": dict(each.topics),
            "pattern": each.pattern or None,
            "exclude": list(each.exclude),
            "partitions": [
                {"topic": owned.topic, "partition": owned.partition, "generation": generation}
                for owned, generation in sorted(each.partitions.items())
            ],
        }
        for each in group.members
    ]
    return {
        **lag_document(group.group, lines),
        "state": group.state,
        "reason": group.reason or None,
        "generation": group.generation,
        "assignor": group.assignor or None,
        "coordinator": group.coordinator_id,
        "coordinator_address": group.coordinator_address,
        "coordinator_epoch": group.coordinator_epoch,
        "rebalances": group.rebalance_count,
        "last_rebalance_ms": group.last_rebalance_ms,
        "topics": list(group.topics),
        "members": members,
    }


def subscription_text(member: "GroupMember") -> str:
    """`flights, orders ×2`, or `/flights.*/`, or `/flights.*/ without /.*-test/`."""
    if member.pattern:
        excluded = ", ".join(f"/{each}/" for each in member.exclude)
        return f"/{member.pattern}/" + (f" without {excluded}" if excluded else "")
    return ", ".join(
        topic if streams == 1 else f"{topic} ×{streams}" for topic, streams in sorted(member.topics.items())
    )


def partitions_text(partitions: Iterable["TopicPartition"]) -> str:
    """`flights 0-3,7; orders 1`: a consumer may own thousands."""
    by_topic: dict[str, list[int]] = defaultdict(list)
    for each in sorted(partitions):
        by_topic[each.topic].append(each.partition)
    return "; ".join(f"{topic} {ranges_text(numbers)}" for topic, numbers in by_topic.items())


def ranges_text(numbers: Sequence[int]) -> str:
    """`0-3,7` for 0, 1, 2, 3, 7, which are sorted."""
    assert all(earlier < later for earlier, later in pairwise(numbers)), "sorted, without doubles"
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1][1] = number
        else:
            runs.append([number, number])
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)


def reset_table(planned: Sequence["PlannedReset"]) -> str:
    """`group reset-offsets`: the present and the new offset of each partition."""
    rows = [
        (each.partition.topic, each.partition.partition, each.committed, each.offset, _change(each), each.lag)
        for each in planned
    ]
    headings = ["topic", "partition", "committed", "new", "change", "lag then"]
    if not any(each.remark for each in planned):
        return table(headings, rows)
    remarked = [(*row, each.remark) for row, each in zip(rows, planned, strict=True)]
    return table([*headings, "remark"], remarked)


def reset_document(
    group: str, planned: Sequence["PlannedReset"], *, executed: bool, errors: Mapping["TopicPartition", str]
) -> "ResetDocument":
    """`group reset-offsets -o json`. `errors` are the names of the refusals, by partition."""
    partitions: list[PartitionResetDocument] = [
        {
            "topic": each.partition.topic,
            "partition": each.partition.partition,
            "committed": each.committed,
            "wanted": each.wanted,
            "new": each.offset,
            "lag": each.lag,
            "error": errors.get(each.partition),
        }
        for each in planned
    ]
    return {"group": group, "dry_run": not executed, "partitions": partitions}


def _change(planned: "PlannedReset") -> str | None:
    return None if planned.change is None else f"{planned.change:+d}"
