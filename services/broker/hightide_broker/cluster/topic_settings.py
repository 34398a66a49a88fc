"""A topic's settings as the broker uses them (/config/topics/[topic]).

The controller refuses invalid settings, but an operator may write them into ZooKeeper. The broker then logs
them and uses the default, so that the partition does not go offline.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from hightide_broker.storage import Flush, LogSettings

log = logging.getLogger(__name__)

_LOG_FIELDS: Final = {
    "segment.bytes": ("segment_bytes", 1, 2**31 - 1),
    "segment.ms": ("segment_ms", 1, 2**63 - 1),
    "retention.ms": ("retention_ms", -1, 2**63 - 1),
    "retention.bytes": ("retention_bytes", -1, 2**63 - 1),
    "max.message.bytes": ("max_message_bytes", 1, 2**31 - 1),
    "index.interval.bytes": ("index_interval_bytes", 1, 2**31 - 1),
}
"""Setting → the field of LogSettings, its smallest and its largest value."""


@dataclass(frozen=True, slots=True)
class TopicSettings:
    """The values that follow from the settings of one topic."""

    min_insync_replicas: int = 1
    log: LogSettings = field(default_factory=LogSettings)

    @property
    def flush_on_disk(self) -> bool:
        """Whether an acknowledgement means that every in-sync replica has synced the record (flush=fsync)."""
        return self.log.flush is Flush.FSYNC


def topic_settings(topic: str, configs: Mapping[str, str], min_insync_replicas: int) -> TopicSettings:
    """The settings of a topic; `min_insync_replicas` is the broker's default for topics that do not set
    it."""
    chosen: dict[str, Any] = {}
    for name, value in configs.items():
        try:
            if name == "min.insync.replicas":
                min_insync_replicas = _within(value, 1, 2**31 - 1)
            elif name == "flush":
                chosen["flush"] = Flush(value)
            elif name in _LOG_FIELDS:
                field_name, least, largest = _LOG_FIELDS[name]
                chosen[field_name] = _within(value, least, largest)
        except ValueError as error:
            log.warning("topic %s: setting %s=%r is ignored: %s", topic, name, value, error)
    return TopicSettings(min_insync_replicas, LogSettings(**chosen))


def _within(value: str, least: int, largest: int) -> int:
    number = int(value)
    if not least <= number <= largest:
        raise ValueError(f"it is not from {least} to {largest}")
    return number
