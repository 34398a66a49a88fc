"""Topic settings: what the broker makes of the names and texts in ZooKeeper."""

from __future__ import annotations

import logging

import pytest
from hightide_broker.cluster.topic_settings import topic_settings
from hightide_broker.storage import Flush, LogSettings


def test_a_topic_without_settings_has_the_defaults() -> None:
    settings = topic_settings("t", {}, min_insync_replicas=2)
    assert settings.min_insync_replicas == 2
    assert settings.log == LogSettings()
    assert not settings.flush_on_disk


def test_settings_are_taken_by_their_names() -> None:
    configs = {
        "min.insync.replicas": "3", "flush": "fsync", "segment.bytes": "1024", "retention.ms": "-1",
        "max.message.bytes": "10", "unclean.leader.election.enable": "true",
    }  # fmt: skip
    settings = topic_settings("t", configs, min_insync_replicas=1)
    assert settings.min_insync_replicas == 3
    assert settings.flush_on_disk
    assert settings.log == LogSettings(
        segment_bytes=1024, retention_ms=-1, max_message_bytes=10, flush=Flush.FSYNC
    )


@pytest.mark.parametrize(
    ("name", "value"),
    [("segment.bytes", "0"), ("retention.ms", "x"), ("flush", "maybe"), ("min.insync.replicas", "0")],
)
def test_garbage_written_by_hand_is_logged_and_the_default_holds(
    name: str, value: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        settings = topic_settings("t", {name: value}, min_insync_replicas=1)
    assert settings == topic_settings("t", {}, min_insync_replicas=1)
    assert name in caplog.text
