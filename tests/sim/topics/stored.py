"""What znodes of topics hold; each content is read once."""

from __future__ import annotations

from functools import lru_cache

from hightide_runtime.znodes.cluster_znodes import LeaderAndIsrZnode, TopicConfigZnode, TopicZnode


@lru_cache(256)
def state_in(data: bytes) -> LeaderAndIsrZnode:
    """A state of a partition."""
    return LeaderAndIsrZnode.decode(data)


@lru_cache(64)
def flush_in(data: bytes) -> str | None:
    """The setting `flush` of a topic; None if it has none of its own."""
    return TopicConfigZnode.decode(data).configs.get("flush")


@lru_cache(64)
def topic_in(data: bytes) -> TopicZnode:
    """A topic."""
    return TopicZnode.decode(data)
