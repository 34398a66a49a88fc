"""Fixtures of the core's tests; invariants are checked after each step and again on teardown."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hightide_broker.core import invariants
from unit.broker_core.replica_pair import ReplicaPair


@pytest.fixture
def pair() -> Iterator[ReplicaPair]:
    replicas = ReplicaPair()
    yield replicas
    for node in replicas.nodes.values():
        invariants.check(node.state)
