"""The settings that a topic may have, and their values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Final

__all__ = [
    "FLUSH",
    "MIN_INSYNC_REPLICAS",
    "UNCLEAN_LEADER_ELECTION",
    "allows_unclean",
    "config_fault",
    "configs_of_new_topic",
    "min_insync_replicas",
    "sensible_part",
    "unknown_setting",
]

MIN_INSYNC_REPLICAS: Final = "min.insync.replicas"
UNCLEAN_LEADER_ELECTION: Final = "unclean.leader.election.enable"
FLUSH: Final = "flush"


@dataclass(frozen=True, slots=True)
class _Whole:
    """A whole number from `least` to `most`."""

    least: int
    most: int

    def fault(self, value: str) -> str | None:
        digits = value.removeprefix("-")
        if (
            digits.isascii()
            and digits.isdigit()
            and len(digits) <= 19
            and self.least <= int(value) <= self.most
        ):
            return None
        return f"must be a whole number from {self.least} to {self.most}"


@dataclass(frozen=True, slots=True)
class _OneOf:
    """A value that must be one of a few words."""

    words: tuple[str, ...]

    def fault(self, value: str) -> str | None:
        return None if value in self.words else f"must be one of {', '.join(self.words)}"


_INT64_MAX: Final = 2**63 - 1
_RULES: Final[dict[str, _Whole | _OneOf]] = {
    MIN_INSYNC_REPLICAS: _Whole(1, 1_000),
    "retention.ms": _Whole(-1, _INT64_MAX),
    "retention.bytes": _Whole(-1, _INT64_MAX),
    "segment.bytes": _Whole(1_024, 2**31 - 1),
    "segment.ms": _Whole(1, _INT64_MAX),
    # One batch must fit into one RPC, whose limit is 16 MiB.
    "max.message.bytes": _Whole(1, 15 * 1024 * 1024),
    "index.interval.bytes": _Whole(1, 2**31 - 1),
    FLUSH: _OneOf(("replicated", "fsync")),
    UNCLEAN_LEADER_ELECTION: _OneOf(("true", "false")),
}

_REPLICAS_FOR_TWO: Final = 3
"""With so many replicas, acks=all can require two and goes on while any one broker is away. With two it could
not."""


def config_fault(configs: Mapping[str, str], replication_factor: int) -> str | None:
    """What is wrong with these settings, as a sentence; None if nothing is."""
    for name, value in sorted(configs.items()):
        if (fault := _setting_fault(name, value)) is not None:
            return fault
    if int(configs.get(MIN_INSYNC_REPLICAS, "1")) > replication_factor:
        return (
            f"{MIN_INSYNC_REPLICAS}={configs[MIN_INSYNC_REPLICAS]} can never be met by "
            f"{replication_factor} replicas"
        )
    return None


def configs_of_new_topic(configs: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    """The settings of a new topic: those of its request, and min.insync.replicas=2 if it has three replicas
    or more (`replication_factor` is that of the partition with the fewest) and does not set it.

    It is stored with the topic. So existing topics stay as they are, and a description shows it.
    """
    if MIN_INSYNC_REPLICAS in configs or replication_factor < _REPLICAS_FOR_TWO:
        return dict(configs)
    return {**configs, MIN_INSYNC_REPLICAS: "2"}


def unknown_setting(name: str) -> str | None:
    """What is wrong with a setting's name; None if topics have it."""
    if name in _RULES:
        return None
    near = get_close_matches(name, _RULES, n=1)
    hint = f"did you mean {near[0]!r}?" if near else f"known are {', '.join(sorted(_RULES))}"
    return f"there is no topic setting {name!r}; {hint}"


def sensible_part(configs: Mapping[str, str], replication_factor: int) -> dict[str, str]:
    """The settings that are valid by themselves; min.insync.replicas is as strict as the replicas allow."""
    kept = {name: value for name, value in configs.items() if _setting_fault(name, value) is None}
    if int(kept.get(MIN_INSYNC_REPLICAS, "1")) > replication_factor:
        kept[MIN_INSYNC_REPLICAS] = str(replication_factor)
    return kept


def _setting_fault(name: str, value: str) -> str | None:
    if (fault := unknown_setting(name)) is not None:
        return fault
    fault = _RULES[name].fault(value)
    return None if fault is None else f"{name}={value!r}: {fault}"


def min_insync_replicas(configs: Mapping[str, str]) -> int:
    """How many in-sync replicas a commit of the topic needs, as far as its own settings say."""
    value = configs.get(MIN_INSYNC_REPLICAS, "1")
    return int(value) if _RULES[MIN_INSYNC_REPLICAS].fault(value) is None else 1


def allows_unclean(configs: Mapping[str, str]) -> bool:
    """Whether the topic's settings prefer an unclean leader to none
    (docs/protocol.md, "Only an ISR member leads")."""
    return configs.get(UNCLEAN_LEADER_ELECTION) == "true"
