"""Znodes that nobody can read: what an operator is told."""

from __future__ import annotations

import pytest
from hightide_leaders.znode_operations import change_of, partition_of
from hightide_runtime.znodes.leaders_znodes import IsrZnode, LedTopicZnode, ReplicasZnode
from hightide_runtime.zookeeper.session import Znode
from unit.leaders.one_broker import ID, NAME


def test_garbage_in_a_partition_is_told_with_its_name(caplog: pytest.LogCaptureFixture) -> None:
    contents = {
        LedTopicZnode.path(NAME.topic): LedTopicZnode(bytes.fromhex(ID), None, 1).encode(),
        ReplicasZnode.path(*NAME): ReplicasZnode((1, 2)).encode(),
        IsrZnode.path(*NAME): b"{",
    }
    found = {path: Znode(path, data, 0, 0) for path, data in contents.items()}
    nodes = partition_of(NAME, found, 1)
    assert nodes is not None
    assert nodes.garbage
    assert "tide-0: znode …/ISR" in caplog.text
    assert "correct or delete the znode" in caplog.text


def test_garbage_in_a_queue_is_told(caplog: pytest.LogCaptureFixture) -> None:
    assert change_of(None) is None
    assert "no state change" in caplog.text
