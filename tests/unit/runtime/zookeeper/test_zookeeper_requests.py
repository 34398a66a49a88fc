import struct

import pytest
from hightide_runtime.zookeeper.operations import (
    MAX_MULTI_BYTES,
    MAX_MULTI_OPERATIONS,
    Check,
    Create,
    Delete,
    Operation,
    SetData,
    multis_of,
)
from hightide_runtime.zookeeper.protocol import (
    MultiChildrenRequest,
    MultiReadRequest,
    MultiRequest,
    OperationFailed,
    ReadResult,
)
from hypothesis import given
from hypothesis import strategies as st
from kazoo.protocol import serialization
from kazoo.security import OPEN_ACL_UNSAFE

FENCE = Check("/controller_epoch", 7)
STAT = struct.Struct("!qqqqiiiqiiq")

paths = st.text(st.characters(codec="utf-8"), min_size=1, max_size=20).map("/{}".format)
versions = st.integers(-1, 2**31 - 1)
operations = st.one_of(
    st.builds(Create, paths, st.binary(max_size=50), st.booleans()),
    st.builds(SetData, paths, st.binary(max_size=50), versions),
    st.builds(Delete, paths, versions),
    st.builds(Check, paths, versions),
)


def as_kazoo_writes_it(operation: Operation) -> object:
    match operation:
        case Create(path, data, ephemeral):
            return serialization.Create(path, data, OPEN_ACL_UNSAFE, int(ephemeral))
        case SetData(path, data, version):
            return serialization.SetData(path, data, version)
        case Delete(path, version):
            return serialization.Delete(path, version)
        case Check(path, version):
            return serialization.CheckVersion(path, version)


@given(st.lists(operations, min_size=1, max_size=8))
def test_a_multi_is_the_bytes_that_kazoo_would_send(multi: list[Operation]) -> None:
    expected = serialization.Transaction([as_kazoo_writes_it(operation) for operation in multi]).serialize()
    assert MultiRequest(multi).serialize() == bytes(expected)


def test_the_chroot_stands_before_every_path() -> None:
    assert (
        MultiRequest([Delete("/a", 1)], "/ht").serialize() == MultiRequest([Delete("/ht/a", 1)]).serialize()
    )


def test_the_reply_to_a_multi_tells_the_version_after_each_operation() -> None:
    header = struct.Struct("!iBi")
    stat = STAT.pack(11, 12, 0, 0, 5, 0, 0, 0, 3, 0, 11)
    reply = (
        header.pack(13, 0, 0)
        + header.pack(5, 0, 0)
        + stat
        + header.pack(1, 0, 0)
        + struct.pack("!i", 2)
        + b"/c"
        + header.pack(2, 0, 0)
        + header.pack(-1, 1, -1)
    )
    request = MultiRequest([FENCE, SetData("/a", b"", 4), Create("/c", b""), Delete("/d", 0)])
    assert request.deserialize(b"xx" + reply, 2) == [7, 5, 0, -1]


def test_the_reply_to_a_multi_read_tells_what_is_there_and_what_is_not() -> None:
    header = struct.Struct("!iBi")
    stat = STAT.pack(11, 12, 0, 0, 5, 0, 0, 99, 3, 7, 11)
    missing = header.pack(-1, 0, -101) + struct.pack("!i", -101)
    reply = header.pack(4, 0, 0) + struct.pack("!i", 3) + b"abc" + stat + missing + header.pack(-1, 1, -1)
    assert MultiReadRequest(["/a", "/b"]).deserialize(reply, 0) == [
        ReadResult(b"abc", version=5, czxid=11, ephemeral_owner=99, children_count=7),
        OperationFailed(-101),
    ]


def test_the_reply_to_a_multi_read_of_children_tells_their_names_and_what_is_not_there() -> None:
    header = struct.Struct("!iBi")
    names = struct.pack("!i", 2) + struct.pack("!i", 1) + b"x" + struct.pack("!i", 2) + "\u00e9".encode()
    missing = header.pack(-1, 0, -101) + struct.pack("!i", -101)
    none = header.pack(8, 0, 0) + struct.pack("!i", 0)
    reply = header.pack(8, 0, 0) + names + missing + none + header.pack(-1, 1, -1)
    assert MultiChildrenRequest(["/a", "/b", "/c"]).deserialize(b"xx" + reply, 2) == [
        ["x", "\u00e9"],
        OperationFailed(-101),
        [],
    ]


@given(st.lists(st.lists(operations, min_size=1, max_size=4), max_size=30), st.sampled_from([None, FENCE]))
def test_packing_loses_nothing_and_keeps_the_order(
    groups: list[list[Operation]], fence: Check | None
) -> None:
    multis = multis_of(groups, fence)
    fences = 1 if fence else 0
    assert all(multi[:fences] == ([fence] if fence else []) for multi in multis)
    packed = [operation for multi in multis for operation in multi[fences:]]
    assert packed == [operation for group in groups for operation in group]


def test_a_fence_of_several_operations_opens_every_multi() -> None:
    fence: list[Operation] = [FENCE, SetData("/group", b"", 1)]
    multis = multis_of(([SetData(f"/t/{i}", b"", 0)] for i in range(2_000)), fence)
    assert [len(multi) for multi in multis] == [1_000, 1_000, 6]
    assert all(multi[:2] == fence for multi in multis)


def test_ten_thousand_sets_take_eleven_multis_of_at_most_a_thousand_each_with_the_fence() -> None:
    multis = multis_of(([SetData(f"/t/{i}", b"x" * 87, 0)] for i in range(10_000)), FENCE)
    assert [len(multi) for multi in multis] == [MAX_MULTI_OPERATIONS] * 10 + [11]


def test_large_operations_are_cut_by_bytes() -> None:
    multis = multis_of(([SetData("/t", b"x" * 150_000, 0)] for _ in range(5)), FENCE)
    assert [len(multi) for multi in multis] == [3, 3, 2]
    assert all(sum(each.size_bytes for each in multi) <= MAX_MULTI_BYTES for multi in multis)


def test_a_group_is_never_torn_apart() -> None:
    group: list[Operation] = [Create("/p", b""), Create("/p/leaderAndISR", b"x")]
    assert all(len(multi) % 2 == 1 for multi in multis_of([group] * 1200, FENCE))


def test_a_group_that_fits_no_multi_is_an_error_and_not_a_dropped_connection() -> None:
    with pytest.raises(ValueError, match="do not fit a multi"):
        multis_of([[SetData("/t", b"x" * MAX_MULTI_BYTES, 0)]], FENCE)
    with pytest.raises(ValueError, match="do not fit a multi"):
        multis_of([[Check("/t", 0)] * MAX_MULTI_OPERATIONS], FENCE)
