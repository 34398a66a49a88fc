"""/consumers/groups/[group]/owners/[topic]/[partition]: whose a partition is, and which partition that is."""

from __future__ import annotations

import pytest
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.group_znodes import OwnerZnode

OWNER = OwnerZnode("m", "c", "i", 1, 7, b"t" * 16, 12)


def test_an_owner_says_of_which_topic_and_of_which_partition_of_that_number_it_is_one() -> None:
    assert OwnerZnode.decode(OWNER.encode()) == OWNER


def test_an_owner_that_an_operator_wrote_need_not_say_it() -> None:
    short = OwnerZnode.decode(b'{"member_id":"m","consumer_id":"c","stream":0,"generation":1}')
    assert short == OwnerZnode("m", "c", "", 0, 1, b"", 0)
    assert OwnerZnode.decode(short.encode()) == short


@pytest.mark.parametrize("wrong", [b'"topic_id":"short"', b'"first_leader_epoch":-1'])
def test_an_owner_that_says_it_wrongly_is_garbage(wrong: bytes) -> None:
    with pytest.raises(ZnodeGarbage):
        OwnerZnode.decode(b'{"member_id":"m","consumer_id":"c","stream":0,"generation":1,' + wrong + b"}")
