"""The settings that the command shows are those that the controller takes and the brokers use."""

from hightide_broker.cluster.topic_settings import TopicSettings, topic_settings
from hightide_broker.storage.settings import LogSettings
from hightide_cli.config.topic_settings import (
    ORIGIN_BROKER,
    ORIGIN_DEFAULT,
    ORIGIN_TOPIC,
    TOPIC_SETTINGS,
    settings_in_use,
)
from hightide_runtime.topics.topic_configs import config_fault, unknown_setting

DEFAULTS = {each.name: each.default for each in TOPIC_SETTINGS}


def test_every_setting_is_one_that_the_controller_takes_with_its_default() -> None:
    assert config_fault(DEFAULTS, replication_factor=1) is None


def test_no_setting_is_missing() -> None:
    refusal = unknown_setting("zzz")
    assert refusal is not None
    assert refusal.endswith(f"known are {', '.join(sorted(DEFAULTS))}")


def test_every_default_is_the_brokers() -> None:
    assert topic_settings("t", DEFAULTS, min_insync_replicas=1) == TopicSettings(log=LogSettings())


def test_a_value_is_told_with_who_said_it() -> None:
    used = {each.name: each for each in settings_in_use({"retention.ms": "5", "of.tomorrow": "x"})}
    assert (used["retention.ms"].value, used["retention.ms"].origin) == ("5", ORIGIN_TOPIC)
    assert used["retention.ms"].default == DEFAULTS["retention.ms"]
    assert used["segment.ms"].origin == ORIGIN_DEFAULT
    # A broker may have been told another one.
    assert used["min.insync.replicas"].origin == ORIGIN_BROKER
    # A newer cluster has settings of which this command knows nothing.
    assert (used["of.tomorrow"].value, used["of.tomorrow"].default) == ("x", "")
