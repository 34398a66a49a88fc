"""All changes that a console offers, by the page that leads to them. Pure."""

import json
from typing import Final

from hightide_console.changes.change import (
    Change,
    ChangeError,
    Command,
    Field,
    Values,
    name_of,
    number_of,
    option,
)

_TOPIC: Final = Field("topic", "Topic", is_required=True)
_GROUP: Final = Field("group", "Group", is_required=True)
_PARTITION: Final = Field("partition", "Partition", "a number", is_required=True)
_RESETS: Final = (
    ("to-earliest", "the first offset that exists"),
    ("to-latest", "the end"),
    ("to-offset", "an offset"),
    ("to-time", "a time"),
    ("by-duration", "so long before now"),
    ("shift-by", "so many records from the committed one"),
)
_WITHOUT_A_VALUE: Final = frozenset({"to-earliest", "to-latest"})


def _pairs(values: Values, field_name: str) -> list[str]:
    """A setting a line, as NAME=VALUE. Raises ChangeError."""
    lines = [line.strip() for line in values[field_name].splitlines() if line.strip()]
    for line in lines:
        if line.startswith("-") or not line.partition("=")[1] or not line.isprintable():
            raise ChangeError(f"“{line[:64]}” is not NAME=VALUE")
    return lines


def _create(values: Values) -> Command:
    return Command(
        (
            *("topic", "create", name_of(values, "name")),
            f"--partitions={number_of(values, 'partitions', 'Partitions')}",
            *option("--replicas", values, "replicas"),
            *(f"--config={pair}" for pair in _pairs(values, "settings")),
        )
    )


def _set(values: Values) -> Command:
    pairs = _pairs(values, "settings")
    resets = values["reset"].replace(",", " ").split()
    if not pairs and not resets:
        raise ChangeError("Settings: say NAME=VALUE, or which settings to reset")
    words = ("config", "set", name_of(values, "topic"), *pairs)
    return Command((*words, *(f"--reset={name}" for name in resets)))


def _add_partitions(values: Values) -> Command:
    count = number_of(values, "partitions", "Partitions in all")
    return Command(("topic", "add-partitions", name_of(values, "topic"), f"--partitions={count}"))


def _delete_topic(values: Values) -> Command:
    return Command(("topic", "delete", name_of(values, "topic")))


def _produce(values: Values) -> Command:
    record: dict[str, object] = {"value": None if values["tombstone"] == "yes" else values["value"]}
    if values["key"]:
        record["key"] = values["key"]
    if headers := _pairs(values, "headers"):
        record["headers"] = dict(each.split("=", 1) for each in headers)
    line = json.dumps(record, ensure_ascii=False)
    words: tuple[str, ...] = ("topic", "produce", name_of(values, "topic"), "--json")
    if values["partition"]:
        words = (*words, f"--partition={number_of(values, 'partition', 'Partition')}")
    return Command(words, f"{line}\n")


def _ends(values: Values) -> Command:
    return Command(("topic", "offsets", name_of(values, "topic")))


def _reset(values: Values) -> Command:
    target, at = values["target"], values["at"]
    if (target in _WITHOUT_A_VALUE) == bool(at):
        needs = "takes no value" if at else "needs a value"
        raise ChangeError(f"Where to: “{dict(_RESETS)[target]}” {needs}")
    if values["partition"] and not values["topic"]:
        raise ChangeError("Partition: say of which topic")
    return Command(
        (
            *("group", "reset-offsets", name_of(values, "group")),
            *option("--topic", values, "topic"),
            *option("--partition", values, "partition"),
            f"--{target}={at}" if at else f"--{target}",
        )
    )


def _delete_group(values: Values) -> Command:
    return Command(("group", "delete", name_of(values, "group")))


def _elect(values: Values) -> Command:
    words = ("elect", "preferred", *option("--topic", values, "topic"))
    return Command((*words, *option("--partition", values, "partition")))


def _elect_unclean(values: Values) -> Command:
    partition = number_of(values, "partition", "Partition")
    return Command(("elect", "unclean", *option("--topic", values, "topic"), f"--partition={partition}"))


def _move(values: Values) -> Command:
    partition = number_of(values, "partition", "Partition")
    return Command(
        (
            *("reassign", "apply", *option("--topic", values, "topic"), f"--partition={partition}"),
            *option("--replicas", values, "replicas"),
            *option("--throttle", values, "throttle"),
        )
    )


def _cancel(values: Values) -> Command:
    if values["partition"] and not values["topic"]:
        raise ChangeError("Partition: say of which topic")
    if not values["topic"]:
        return Command(("reassign", "cancel", "--all"))
    words = ("reassign", "cancel", *option("--topic", values, "topic"))
    return Command((*words, *option("--partition", values, "partition")))


def _throttle(values: Values) -> Command:
    return Command(("reassign", "throttle", name_of(values, "rate")))


def _moves(_: Values) -> Command:
    return Command(("reassign", "ls"))


def _drain(values: Values) -> Command:
    return Command(("broker", "drain", number_of(values, "broker", "Broker"), "--timeout=30"))


def _resign(_: Values) -> Command:
    return Command(("controller", "resign"))


def _resign_coordinator(values: Values) -> Command:
    return Command(("coordinator", "resign", number_of(values, "coordinator", "Coordinator")))


_ANY_TOPIC: Final = Field("topic", "Topic", "all topics, if it is left out")
_ANY_PARTITION: Final = Field("partition", "Partition", "all of them, if it is left out")
_SETTINGS: Final = Field("settings", "Settings", "NAME=VALUE, one a line", is_long=True)

CHANGES: Final = (
    Change(
        "create-topic",
        "Create a topic",
        "It is there when it has leaders.",
        "topics",
        (
            Field("name", "Name", is_required=True),
            Field("partitions", "Partitions", default="6", is_required=True),
            Field("replicas", "Replicas", "3, or as many as there are live brokers, if it is left out"),
            _SETTINGS,
        ),
        _create,
    ),
    Change(
        "produce",
        "Write a record",
        "It is written with acks=all. What is shown first are the ends of the partitions, as they are.",
        "topic",
        (
            _TOPIC,
            Field("key", "Key", "none, if it is left out"),
            Field("value", "Value", is_long=True),
            Field(
                "tombstone",
                "Kind",
                default="no",
                choices=(("no", "a value"), ("yes", "a tombstone: no value, and the key is deleted")),
            ),
            Field("headers", "Headers", "NAME=VALUE, one a line", is_long=True),
            Field("partition", "Partition", "that of the key, or any, if it is left out"),
        ),
        _produce,
        look=_ends,
        loses="A record cannot be taken back.",
    ),
    Change(
        "set",
        "Change settings",
        "The brokers of the topic use them at once.",
        "topic",
        (_TOPIC, _SETTINGS, Field("reset", "Reset to the default", "names of settings, with commas")),
        _set,
    ),
    Change(
        "add-partitions",
        "Add partitions",
        "From then on a key may go to another partition; records that are there stay in theirs.",
        "topic",
        (_TOPIC, Field("partitions", "Partitions in all", is_required=True)),
        _add_partitions,
        loses="Which key goes to which partition changes for good.",
    ),
    Change(
        "elect",
        "Elect preferred leaders",
        "The first replica of each partition leads again, if it is alive and in sync.",
        "topic",
        (_ANY_TOPIC, _ANY_PARTITION),
        _elect,
    ),
    Change(
        "move",
        "Move a partition",
        "The move goes on when the command has ended; the page of failovers shows how far it is.",
        "topic",
        (
            _TOPIC,
            _PARTITION,
            Field("replicas", "Brokers", "with commas, the preferred leader first: 1,2,3", is_required=True),
            Field("throttle", "Throttle", "bytes a second that each broker sends, such as 10MB; or off"),
        ),
        _move,
    ),
    Change(
        "elect-unclean",
        "Elect an unclean leader",
        "Any live replica leads a partition that has no leader. Start one of the brokers of its last ISR "
        "instead, if you can.",
        "topic",
        (_TOPIC, _PARTITION),
        _elect_unclean,
        deed=("--yes",),
        loses="Records that only the replicas of the last ISR hold are lost for good.",
    ),
    Change(
        "delete-topic",
        "Delete the topic",
        "A topic with the same name can be created at once.",
        "topic",
        (_TOPIC,),
        _delete_topic,
        deed=("--yes",),
        loses="All its records are deleted for good.",
    ),
    Change(
        "reset-offsets",
        "Reset offsets",
        "The group must have no members. An offset that a log does not have becomes the nearest that it has.",
        "group",
        (
            _GROUP,
            Field("target", "Where to", default="to-earliest", is_required=True, choices=_RESETS),
            Field("at", "Value", "42, 2026-01-31T12:00Z, 1h30m, -10"),
            Field("topic", "Topic", "all topics with committed offsets, if it is left out"),
            _ANY_PARTITION,
        ),
        _reset,
        deed=("--execute",),
        loses="The offsets that were committed before are forgotten.",
    ),
    Change(
        "delete-group",
        "Delete the group",
        "The group must have no members.",
        "group",
        (_GROUP,),
        _delete_group,
        deed=("--yes",),
        loses="Its committed offsets are deleted for good.",
    ),
    Change(
        "cancel-moves",
        "Cancel moves",
        "The partitions stay on their old brokers.",
        "failovers",
        (Field("topic", "Topic", "all moves, if it is left out"), _ANY_PARTITION),
        _cancel,
    ),
    Change(
        "throttle",
        "Throttle moves",
        "It holds at once, also for moves under way. What is shown first are the moves, as they are.",
        "failovers",
        (
            Field(
                "rate",
                "Rate",
                "bytes a second that each broker sends, such as 10MB; or off",
                is_required=True,
            ),
        ),
        _throttle,
        look=_moves,
    ),
    Change(
        "elect-all",
        "Elect preferred leaders",
        "The first replica of each partition leads again, if it is alive and in sync.",
        "overview",
        (_ANY_TOPIC, _ANY_PARTITION),
        _elect,
    ),
    Change(
        "drain",
        "Drain a broker",
        "It leads nothing until it is started again, or another controller takes over.",
        "overview",
        (Field("broker", "Broker", "its number", is_required=True),),
        _drain,
    ),
    Change(
        "resign-controller",
        "Let the controller resign",
        "Another one takes over; a single one is elected again.",
        "overview",
        (),
        _resign,
    ),
    Change(
        "resign-coordinator",
        "Let a coordinator resign",
        "Others are elected for its shards. Consumers keep their partitions.",
        "overview",
        (Field("coordinator", "Coordinator", "its number", is_required=True),),
        _resign_coordinator,
    ),
)
_OF_A_CONTROLLER: Final = frozenset({"resign-controller"})
_BY_NAME: Final = {each.name: each for each in CHANGES}


def change_named(name: str) -> Change | None:
    """The change with this name."""
    return _BY_NAME.get(name)


def changes_of(place: str, *, has_controller: bool = True) -> tuple[Change, ...]:
    """The changes that a page leads to. In a cluster that leaders coordinate, no controller can resign."""
    found = (each for each in CHANGES if each.place == place)
    return tuple(each for each in found if has_controller or each.name not in _OF_A_CONTROLLER)
