"""What GetMetadata says of a topic is made once, and always true."""

from __future__ import annotations

from hightide_broker.cluster.metadata import (
    EndpointView,
    LeaderChange,
    MetadataCache,
    MetadataUpdate,
    PartitionView,
    TopicView,
)
from hightide_broker.contract.topic_answers import TopicAnswers

TOPICS = 1_000


def update(*names: str, leader: int = 1, epoch: int = 0, full: bool = False) -> MetadataUpdate:
    topics = tuple(
        TopicView(
            name, name.encode().ljust(16), (PartitionView(0, leader, epoch, (1, 2), (1, 2), epoch),), {}
        )
        for name in names
    )
    return MetadataUpdate(1, EndpointView(9, "c", 1), (EndpointView(1, "b", 2),), topics, full=full)


def topic(cache: MetadataCache, name: str) -> TopicView:
    found = cache.topic(name)
    assert found is not None
    return found


def test_all_who_ask_are_told_the_same_message() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update("flights"))
    answers = TopicAnswers(cache)
    assert answers.of(topic(cache, "flights")) is answers.of(topic(cache, "flights"))


def test_a_change_is_told_at_once() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update("flights"))
    answers = TopicAnswers(cache)
    assert answers.of(topic(cache, "flights")).partitions[0].leader == 1
    cache.apply(update("flights", leader=2, epoch=1))
    assert answers.of(topic(cache, "flights")).partitions[0].leader == 2


def test_the_trace_of_a_change_is_told_as_long_as_it_is_fresh() -> None:
    cache = MetadataCache("cluster")
    cache.apply(update("flights"))
    change = LeaderChange("00-trace")
    cache.apply(update("flights", leader=2, epoch=1), change)
    answers = TopicAnswers(cache)
    assert answers.of(topic(cache, "flights")).partitions[0].traceparent == "00-trace"
    change.traceparent = ""
    assert answers.of(topic(cache, "flights")).partitions[0].traceparent == ""


def test_topics_that_are_gone_are_forgotten() -> None:
    cache = MetadataCache("cluster")
    answers = TopicAnswers(cache)
    for number in range(TOPICS):
        cache.apply(update(f"topic-{number}", full=True))
        answers.of(topic(cache, f"topic-{number}"))
    assert len(answers) < TOPICS / 10
