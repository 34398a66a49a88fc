"""Whose a producer id is."""

from __future__ import annotations

import pytest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.data.producer_owners import NOBODY, ProducerOwners, may_use
from hightide_runtime.access.principals import ANONYMOUS, Principal, Role
from hightide_runtime.errors import ServiceError
from hypothesis import given
from hypothesis import strategies as st

KEY = b"k" * 32
numbers = st.integers(0, 2**40 - 1)
names = st.text("abcdefgh-", min_size=1, max_size=8)


def client(name: str) -> Principal:
    return Principal(Role.CLIENT, name)


@given(numbers, names)
def test_an_id_is_its_owners_at_every_broker_and_fits_into_the_header_of_a_batch(
    number: int, name: str
) -> None:
    owners, elsewhere = ProducerOwners(KEY), ProducerOwners(KEY)
    producer_id = owners.bound(number, client(name))
    assert 2**61 <= producer_id < 2**62, "from there on are those that writers make from a key"
    assert may_use(producer_id, elsewhere.tag_of(client(name)))
    assert not may_use(producer_id, NOBODY)


@given(numbers, numbers, names, names)
def test_no_two_producers_get_the_same_id(one: int, other: int, name: str, other_name: str) -> None:
    owners = ProducerOwners(KEY)
    if one != other:
        assert owners.bound(one, client(name)) != owners.bound(other, client(other_name))


def test_of_ten_thousand_strangers_hardly_one_may_use_an_id() -> None:
    """With 21 bits, one in two million."""
    owners = ProducerOwners(KEY)
    producer_id = owners.bound(7, client("alice"))
    strangers = [client(f"stranger-{number}") for number in range(10_000)]
    assert sum(may_use(producer_id, owners.tag_of(each)) for each in strangers) <= 1


def test_without_the_key_of_the_cluster_nobody_knows_which_names_look_alike() -> None:
    tags = {ProducerOwners(bytes([number])).tag_of(client("alice")) for number in range(50)}
    assert len(tags) == 50


@given(st.integers(2**62, 2**63 - 1), names)
def test_an_id_that_a_writer_makes_from_its_key_has_no_owner(producer_id: int, name: str) -> None:
    assert may_use(producer_id, ProducerOwners(KEY).tag_of(client(name)))
    assert may_use(producer_id, NOBODY)


def test_what_has_no_producer_or_no_owner_is_everybodys() -> None:
    for tag in (NOBODY, ProducerOwners(KEY).tag_of(client("alice"))):
        assert may_use(-1, tag)
        assert may_use(2**40 - 1, tag)
    assert ProducerOwners(KEY).bound(2**50, ANONYMOUS) == 2**50


def test_numbers_that_are_used_up_are_told_with_what_to_write() -> None:
    with pytest.raises(ServiceError, match="write a number below") as refused:
        ProducerOwners(KEY).bound(2**40, client("alice"))
    assert refused.value.code == ErrorCode.ERROR_CODE_LIMIT_EXCEEDED
