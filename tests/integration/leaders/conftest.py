"""A client, and a topic, for tests that have a cluster of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from hightide import Admin
from hightide_local.cluster import LocalCluster


@pytest.fixture
def admin(cluster: LocalCluster) -> Iterator[Admin]:
    """A client of all brokers."""
    cluster.restore()
    with Admin(cluster.bootstrap) as client:
        yield client


@pytest.fixture
def topic(admin: Admin, request: pytest.FixtureRequest) -> Iterator[str]:
    """A topic of two partitions on all brokers, that belongs to this test."""
    name = "".join(c if c.isalnum() else "-" for c in request.node.name)[:200]
    admin.create_topic(name, assignment=[[1, 2, 3], [2, 3, 1]])
    yield name
    admin.delete_topic(name)
