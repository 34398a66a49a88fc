"""Changing the settings of a topic: by request, or because an operator wrote /config/topics/[topic]."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from hightide_runtime.topics.topic_configs import config_fault, sensible_part, unknown_setting
from hightide_runtime.znodes.paths import topic_config_path
from msgspec.structs import replace

from hightide_controller.core.effects import Effect, Refusal
from hightide_controller.core.elections.stores import reconsider, send_decisions, send_metadata
from hightide_controller.core.elections.waiting_requests import refuse, satisfy
from hightide_controller.core.events import ConfigsChanged, Topic
from hightide_controller.core.state.cluster_state import ClusterState
from hightide_controller.core.state.complaints import complain, withdraw
from hightide_controller.core.state.topic_plan import TopicPlan
from hightide_controller.core.state.topic_rules import Fault
from hightide_controller.core.values.partition import TopicPartition
from hightide_controller.core.values.requested_changes import RequestedChange, RequestedSettings
from hightide_controller.core.writes import ConfigWrite

__all__ = [
    "altered_configs",
    "on_configs_changed",
    "plan_settings",
    "sensible_settings",
    "settings_fault",
    "take_settings",
]


def altered_configs(topic: Topic, to_set: Mapping[str, str], to_reset: tuple[str, ...]) -> dict[str, str]:
    """The settings after a request."""
    return {name: value for name, value in {**topic.configs, **to_set}.items() if name not in to_reset}


def settings_fault(topic: Topic, to_set: Mapping[str, str], to_reset: tuple[str, ...]) -> Fault | None:
    """The reason why the topic cannot have these settings; None if it can."""
    both = sorted(set(to_set) & set(to_reset))
    if both:
        return Refusal.INVALID_CONFIG, f"{both[0]} is to be set and reset in one request; choose one"
    fault = config_fault(altered_configs(topic, to_set, to_reset), _replicas_min(topic))
    if fault is None:
        fault = next((found for name in to_reset if (found := unknown_setting(name)) is not None), None)
    return None if fault is None else (Refusal.INVALID_CONFIG, fault)


def plan_settings(state: ClusterState, plan: TopicPlan) -> None:
    """Put all requested settings into one write."""
    topic = plan.topic
    assert topic is not None
    work = state.work[plan.name]
    wanted = topic
    for requested in list(work.requested_changes):
        if not isinstance(requested, RequestedSettings):
            continue
        configs = altered_configs(wanted, requested.to_set, requested.to_reset)
        if (
            requested.is_begun
            and _holds(requested, topic, work.requested_changes)
            and not _is_nonsense(state, topic)
        ):
            work.requested_changes.remove(requested)
            satisfy(state, requested.request_id)
        elif not requested.is_begun and requested.request_id not in state.waiters:
            # Its time ran out before it was begun.
            work.requested_changes.remove(requested)
        elif (fault := settings_fault(wanted, requested.to_set, requested.to_reset)) is not None:
            work.requested_changes.remove(requested)
            plan.effects += refuse(state, requested.request_id, *fault)
        else:
            wanted = replace(wanted, configs=configs)
            plan.begin(requested)
    if wanted is not topic:
        plan.add(ConfigWrite(topic.name, wanted.configs, topic.config_version))


def _holds(requested: RequestedSettings, topic: Topic, requested_changes: Sequence[RequestedChange]) -> bool:
    """Whether the topic has these settings, except those that a later request changed in the same write."""
    later = [
        other
        for other in requested_changes[requested_changes.index(requested) + 1 :]
        if isinstance(other, RequestedSettings)
    ]
    changed = {name for other in later if other.is_begun for name in (*other.to_set, *other.to_reset)}
    to_set = {name: value for name, value in requested.to_set.items() if name not in changed}
    to_reset = tuple(name for name in requested.to_reset if name not in changed)
    return altered_configs(topic, to_set, to_reset) == topic.configs


def on_configs_changed(state: ClusterState, event: ConfigsChanged) -> list[Effect]:
    """Apply settings that an operator wrote at once. Invalid ones are complained about, and the old ones
    stay."""
    effects: list[Effect] = []
    for topic_name, read in event.configs.items():
        if topic_name in state.topics:
            configs, version = ({}, None) if read is None else read
            effects += take_settings(state, topic_name, configs, version, event.cause)
            state.mark_due(topic_name, event.cause)
    return effects


def take_settings(
    state: ClusterState, topic_name: str, configs: dict[str, str], version: int | None, cause: str
) -> list[Effect]:
    """Take over the content of /config/topics/[topic], and send the topic's brokers what is new to them."""
    topic = state.topics[topic_name]
    path = topic_config_path(topic_name)
    fault = config_fault(configs, _replicas_min(topic))
    if fault is not None:
        # The version is taken over, so that a request that corrects it does not fail.
        state.topics[topic_name] = replace(topic, config_version=version)
        return complain(state, path, f"{fault}; the settings that the topic had hold on")
    withdraw(state, path)
    state.topics[topic_name] = replace(topic, configs=configs, config_version=version)
    if configs == topic.configs:
        return []
    names = [TopicPartition(topic_name, number) for number in range(len(topic.assignment))]
    told = [name for name in names if state.partitions[name].leader_and_isr is not None]
    effects = send_decisions(state, told, cause)
    effects += send_metadata(state, names, cause)
    return effects + reconsider(state, [name for name in names if name in state.unled], cause)


def sensible_settings(topic: Topic) -> tuple[Topic, str | None]:
    """The topic without its invalid settings, and what is wrong with them.

    If a controller finds invalid settings at a takeover, there are no old ones that could stay.
    """
    replicas_min = _replicas_min(topic)
    fault = config_fault(topic.configs, replicas_min)
    if fault is None:
        return topic, None
    return replace(topic, configs=sensible_part(topic.configs, replicas_min)), fault


def _replicas_min(topic: Topic) -> int:
    return min(len(replicas) for replicas in topic.assignment)


def _is_nonsense(state: ClusterState, topic: Topic) -> bool:
    return topic_config_path(topic.name) in state.complaints
