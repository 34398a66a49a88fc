"""The settings that a topic may have, as `hightide config` shows them. A unit test compares the table with
the controller's settings and the brokers' defaults; an operator need not have their packages."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final


@dataclass(frozen=True, slots=True)
class TopicSetting:
    """One setting. If `is_of_broker`, each broker has its own default, and `default` is the usual one."""

    name: str
    default: str
    meaning: str
    is_of_broker: bool = False


_DAY_MS: Final = 24 * 3600 * 1000

TOPIC_SETTINGS: Final[tuple[TopicSetting, ...]] = (
    TopicSetting("min.insync.replicas", "1", "how many replicas acks=all needs in sync", is_of_broker=True),
    TopicSetting("flush", "replicated", "acknowledged when in sync replicas have it (or: on disk, fsync)"),
    TopicSetting("unclean.leader.election.enable", "false", "whether a replica that lacks records may lead"),
    TopicSetting("retention.ms", str(7 * _DAY_MS), "how long a segment stays; -1: for ever"),
    TopicSetting("retention.bytes", "-1", "how many bytes of a partition stay; -1: all"),
    TopicSetting("segment.bytes", str(512 << 20), "how large a segment grows"),
    TopicSetting("segment.ms", str(7 * _DAY_MS), "how old a segment grows"),
    TopicSetting("max.message.bytes", str(4 << 20), "how large a record batch may be"),
    TopicSetting("index.interval.bytes", "4096", "how many bytes lie between two entries of the index"),
)

ORIGIN_TOPIC: Final = "topic"
ORIGIN_DEFAULT: Final = "default"
ORIGIN_BROKER: Final = "broker default"


@dataclass(frozen=True, slots=True)
class SettingInUse:
    """One setting of one topic: its value and its source."""

    name: str
    value: str
    default: str
    origin: str
    meaning: str


def settings_in_use(configs: Mapping[str, str]) -> list[SettingInUse]:
    """Every setting, in the order of the table; after them, those that this command does not know."""
    known = [
        SettingInUse(
            each.name,
            configs.get(each.name, each.default),
            each.default,
            ORIGIN_TOPIC if each.name in configs else ORIGIN_BROKER if each.is_of_broker else ORIGIN_DEFAULT,
            each.meaning,
        )
        for each in TOPIC_SETTINGS
    ]
    names = {each.name for each in TOPIC_SETTINGS}
    unknown = [
        SettingInUse(name, value, "", ORIGIN_TOPIC, "")
        for name, value in sorted(configs.items())
        if name not in names
    ]
    return known + unknown
