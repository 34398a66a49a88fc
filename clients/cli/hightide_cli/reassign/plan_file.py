"""A plan as JSON, in the form that Kafka's tools know: {"version": 1, "partitions": [{"topic", "partition",
"replicas"}]}. A person who writes one may leave out Hightide's additions (`from`, bytes)."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hightide_cli.documents.moves import PlanDocument, PlannedMoveDocument
from hightide_cli.documents.view import view
from hightide_cli.reassign.plan import Plan

VERSION = 1


class PlanFileError(Exception):
    """The file is not a plan; the message names the file, the place and the value."""


@dataclass(frozen=True, slots=True)
class PlannedMove:
    """One line of a plan. `before` is None where the file does not say where the partition was."""

    topic: str
    partition: int
    replicas: tuple[int, ...]
    before: tuple[int, ...] | None


def plan_document(plan: Plan) -> PlanDocument:
    """The plan as JSON: what `plan -o json` prints and `apply` reads."""
    return {
        "version": VERSION,
        "partitions": [view(PlannedMoveDocument, move) for move in plan.moves],
        "brokers": [
            {
                "broker": each.broker_id,
                "replicas": {"from": each.replicas_before, "to": each.replicas_after},
                "preferred_leaders": {"from": each.leaders_before, "to": each.leaders_after},
                "bytes_to_receive": each.bytes_in,
                "bytes_to_send": each.bytes_out,
            }
            for each in plan.brokers
        ],
        "bytes_to_move": plan.bytes_to_move,
    }


def write_plan(path: Path, plan: Plan) -> None:
    """Write the file. Raises OSError."""
    path.write_text(json.dumps(plan_document(plan), indent=2) + "\n")


def read_plan(path: Path) -> list[PlannedMove]:
    """Read a plan. Raises PlanFileError, OSError."""
    try:
        document = json.loads(path.read_bytes())
    except ValueError as error:
        raise PlanFileError(
            f"{path} is no JSON ({error}): make a plan with `hightide reassign plan`"
        ) from None
    version = document.get("version", VERSION) if isinstance(document, dict) else None
    partitions = document.get("partitions") if isinstance(document, dict) else None
    if not isinstance(partitions, list):
        raise PlanFileError(f'{path} has no list "partitions": `hightide reassign plan` makes a plan')
    if version != VERSION:
        raise PlanFileError(f"{path} is of version {version}, and this command knows {VERSION}: update it")
    moves = [_move(each, f"{path}, partitions[{at}]") for at, each in enumerate(partitions)]
    seen: set[tuple[str, int]] = set()
    for move in moves:
        if (move.topic, move.partition) in seen:
            raise PlanFileError(f"{path} names {move.topic}-{move.partition} twice: leave one of them")
        seen.add((move.topic, move.partition))
    return moves


def _move(entry: Any, where: str) -> PlannedMove:
    if not isinstance(entry, dict):
        raise PlanFileError(f"{where} is {entry!r}, not an object with topic, partition and replicas")
    topic, partition = entry.get("topic"), entry.get("partition")
    if not isinstance(topic, str):
        raise PlanFileError(f"{where}: topic is {topic!r}, not a name")
    if not isinstance(partition, int) or not _is_number(partition):
        raise PlanFileError(f"{where}: partition is {partition!r}, not a number")
    before = None if entry.get("from") is None else _brokers(entry["from"], f"{where}: from")
    return PlannedMove(topic, partition, _brokers(entry.get("replicas"), f"{where}: replicas"), before)


def _brokers(value: Any, where: str) -> tuple[int, ...]:
    if not isinstance(value, list) or not value or not all(map(_is_number, value)):
        raise PlanFileError(f"{where} is {value!r}, not a list of broker ids like [4, 5]")
    return tuple(value)


def _is_number(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
