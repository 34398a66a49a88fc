"""To which cluster a process belongs, and what it says of another one's ZooKeeper."""

from __future__ import annotations

import pytest
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.znodes.cluster_znodes import ClusterIdZnode, ZnodeGarbage
from hightide_runtime.zookeeper.cluster_identity import ClusterMembership, check_cluster_id, cluster_id_in
from hightide_runtime.zookeeper.errors import InconsistentClusterId, SessionExpired

ADDRESS = "zk1:2181"
MEMBER = ClusterMembership("ours", "/chroot/cluster/id")


def test_its_own_cluster_is_let_pass() -> None:
    MEMBER.check(ClusterIdZnode("ours").encode(), ADDRESS)


@pytest.mark.parametrize(
    ("content", "found"),
    [
        (ClusterIdZnode("theirs").encode(), "theirs"),
        (None, ""),
        (b"", ""),
        (b"{}", ""),
    ],
)
def test_any_other_one_or_none_is_refused_with_address_both_ids_and_the_next_step(
    content: bytes | None, found: str
) -> None:
    with pytest.raises(InconsistentClusterId) as refused:
        MEMBER.check(content, ADDRESS)
    error = refused.value
    assert (error.address, error.ours, error.found) == (ADDRESS, "ours", found)
    assert error.code == ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID
    for part in ("INCONSISTENT_CLUSTER_ID", ADDRESS, "cluster ours", found or "/cluster/id", "--zookeeper"):
        assert part in str(error)


def test_whoever_waits_for_the_end_of_a_session_hears_of_it_as_of_an_expiry() -> None:
    assert issubclass(InconsistentClusterId, SessionExpired)


def test_who_belongs_to_no_cluster_yet_may_join_any_or_found_one() -> None:
    check_cluster_id("theirs", (), ADDRESS)
    check_cluster_id("", (), ADDRESS)


def test_who_has_data_of_a_cluster_founds_none_and_joins_no_other() -> None:
    check_cluster_id("ours", {"ours", "mixed up"}, ADDRESS)
    for found in ("", "theirs"):
        with pytest.raises(InconsistentClusterId, match="cluster mixed up or ours"):
            check_cluster_id(found, {"ours", "mixed up"}, ADDRESS)


def test_nonsense_is_no_absence_for_who_would_found_a_cluster() -> None:
    assert cluster_id_in(None) == ""
    with pytest.raises(ZnodeGarbage):
        cluster_id_in(b"{}")
