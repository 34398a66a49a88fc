"""/consumers/groups/[group]/offsets/[topic]/[partition]: where a group goes on, and in which partition that
is."""

from __future__ import annotations

import pytest
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.group_znodes import OffsetZnode

OFFSET = OffsetZnode(5, -1, b"t" * 16, "why", 12)


def test_an_offset_says_of_which_partition_of_that_number_it_is_one() -> None:
    assert OffsetZnode.decode(OFFSET.encode()) == OFFSET


def test_an_offset_in_the_first_partition_of_its_number_need_not_say_it() -> None:
    short = OffsetZnode.decode(b'{"offset":5,"leader_epoch":3,"topic_id":"' + b"74" * 16 + b'"}')
    assert short == OffsetZnode(5, 3, b"t" * 16)
    assert b"first_leader_epoch" not in short.encode()


def test_an_offset_that_says_it_wrongly_is_garbage() -> None:
    with pytest.raises(ZnodeGarbage):
        OffsetZnode.decode(OFFSET.encode().replace(b"12", b"-1"))
