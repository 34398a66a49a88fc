"""A request that ZooKeeper answers with an error number of its own: what that says of the session."""

from __future__ import annotations

import pytest
from hightide_runtime.zookeeper.errors import ConnectionLost, SessionExpired, ZooKeeperRefused, typed_error

OVER = {"it has expired": -112, "the server has forgotten it already": -12}
"""The numbers of ZooKeeper 3.9 (`SessionTrackerImpl.checkSession`) for a write in a session that is over."""


@pytest.mark.parametrize("number", OVER.values(), ids=OVER)
def test_a_write_in_a_session_that_is_over_was_not_taken_and_ends_it(number: int) -> None:
    assert isinstance(typed_error(number, "/a", writes=True), SessionExpired)


def test_a_write_in_a_session_that_went_on_at_another_server_was_not_taken() -> None:
    error = typed_error(-118, "/a", writes=True)
    assert isinstance(error, ConnectionLost)
    assert not error.outcome_unknown


@pytest.mark.parametrize("number", [-8, -121, -999])
def test_any_other_number_is_a_refusal_that_names_the_znode(number: int) -> None:
    error = typed_error(number, "/a", writes=True)
    assert type(error) is ZooKeeperRefused
    assert "/a" in str(error)
