"""The znodes below /admin that are named after topics: empty parents of requests.

They are created before the multi that needs them, and deleted after the one that empties them, outside of it,
because nothing depends on them. If a controller dies in between, one may be left over; it requests nothing.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from hightide_runtime.znodes.admin_znodes import PartitionAddZnode, PartitionRemoveZnode, ReassignmentZnode
from hightide_runtime.zookeeper.session import NoNode, NotEmpty, ZooKeeperError, ZooKeeperSession

from hightide_controller.core.writes import (
    AdditionDone,
    ReassignmentDone,
    ReassignmentWrite,
    RemovalDone,
    TopicRemoved,
    Write,
)

__all__ = ["make_parents", "take_away_empty"]

_log = logging.getLogger(__name__)


async def make_parents(session: ZooKeeperSession, writes: Iterable[Write]) -> None:
    """Create the parents of what these writes create. Raises ZooKeeperError."""
    for parent in sorted({path for write in writes for path in _parents_to_make(write)}):
        await session.ensure_path(parent)


async def take_away_empty(session: ZooKeeperSession, writes: Iterable[Write], *, is_committed: bool) -> None:
    """Delete the parents that these writes left without children, or, if they failed, that were created for
    them.

    This is a best effort: what cannot be deleted is logged, and stays.
    """
    for parent in sorted({path for write in writes for path in _parents_to_empty(write, is_committed)}):
        try:
            await session.delete(parent)
        except (NotEmpty, NoNode):
            continue
        except ZooKeeperError as error:
            _log.info("%s is left standing, empty: %s", parent, error)


def _parents_to_make(write: Write) -> Iterable[str]:
    if isinstance(write, ReassignmentWrite) and write.expected_version is None:
        return (ReassignmentZnode.topic_path(write.name.topic),)
    return ()


def _parents_to_empty(write: Write, is_committed: bool) -> Iterable[str]:
    if not is_committed:
        return _parents_to_make(write)
    match write:
        case ReassignmentDone(name=(topic, _)):
            return (ReassignmentZnode.topic_path(topic),)
        case AdditionDone(name=(topic, _)):
            return (PartitionAddZnode.topic_path(topic),)
        case RemovalDone(name=(topic, _)):
            return (PartitionRemoveZnode.topic_path(topic),)
        case TopicRemoved(topic=removed):
            kinds = (ReassignmentZnode, PartitionAddZnode, PartitionRemoveZnode)
            return tuple(kind.topic_path(removed.name) for kind in kinds)
        case _:
            return ()
