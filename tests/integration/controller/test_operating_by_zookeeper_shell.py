"""A ZooKeeper shell is enough to operate: what V3 has an operator write is carried out, nonsense harms
nothing.

V3's paths 3, 5 and 6, its letters B, F and H, and the settings below /config. A cluster of four brokers and
two controllers is shared; each test has topics of its own.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
from hightide import Producer
from hightide.errors import BatchTooLargeError, RecordTooLargeError
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import HEALED_S, FaultDrill
from hightide_local.histories.violation import NotInTimeError
from hightide_local.histories.waiting import wait_until
from integration.controller.zookeeper_operator import ZooKeeperOperator
from kazoo.exceptions import NoNodeError

pytestmark = pytest.mark.cluster

MOVES, ADDITIONS, REMOVALS, DELETIONS = (
    f"/admin/{kind}"
    for kind in ("partitions_reassigned", "partitions_add", "partitions_remove", "delete_topics")
)


@pytest.fixture(scope="module")
def shared_operator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ZooKeeperOperator]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "300")
        with LocalCluster(
            tmp_path_factory.mktemp("shell"),
            brokers=4,
            # A broker that stands still is still one to move to, and nobody is elected because of a slow one.
            session_timeout_ms=30_000,
        ) as cluster:
            operator = ZooKeeperOperator(cluster)
            yield operator
            operator.close()


@pytest.fixture
def operator(shared_operator: ZooKeeperOperator) -> Iterator[ZooKeeperOperator]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_operator
    shared_operator.make_whole()


# ---- what is carried out


def test_b_a_topic_znode_as_the_text_describes_it_becomes_a_topic(operator: ZooKeeperOperator) -> None:
    operator.put("/brokers/topics/bare", b'{"0": [1, 2], "1": [3, 4]}')
    operator.wait_until_led("bare", 2)
    assert [each.replicas for each in operator.partitions("bare")] == [(1, 2), (3, 4)]
    operator.produce("bare", 5, 2)
    assert operator.ends("bare", 2) == [5, 5]
    written = json.loads(operator.content("/brokers/topics/bare") or b"")
    assert written == {"topic_id": operator.topic_id("bare").hex(), "partitions": {"0": [1, 2], "1": [3, 4]}}
    marker = operator.content(f"/brokers/topic_ids/{written['topic_id']}")
    assert json.loads(marker or b"") == {"topic": "bare"}


def test_b_a_topic_goes_because_its_name_stands_below_delete_topics(operator: ZooKeeperOperator) -> None:
    operator.admin.create_topic("goes", 3, 3, configs={"retention.ms": "3600000"})
    operator.produce("goes", 5, 3)
    topic_id = operator.topic_id("goes")
    assert operator.holders(topic_id)
    operator.put(f"{DELETIONS}/goes")
    wait_until("it is gone", lambda: not operator.exists("goes"), HEALED_S)
    operator.wait_until_done()
    wait_until("no broker keeps its data", lambda: operator.holders(topic_id) == {}, HEALED_S)
    paths = "/brokers/topics/goes", "/config/topics/goes", f"/brokers/topic_ids/{topic_id.hex()}"
    wait_until("its znodes are gone", lambda: all(operator.content(path) is None for path in paths), HEALED_S)


def test_b_a_topic_whose_znodes_an_operator_takes_away_is_gone(operator: ZooKeeperOperator) -> None:
    operator.admin.create_topic("torn-out", 2, 3)
    operator.produce("torn-out", 5, 2)
    topic_id = operator.topic_id("torn-out")
    operator.take_away("/brokers/topics/torn-out")
    wait_until("it is gone", lambda: not operator.exists("torn-out"), HEALED_S)
    wait_until("no broker keeps its data", lambda: operator.holders(topic_id) == {}, HEALED_S)
    wait_until(
        "its marker is gone",
        lambda: operator.content(f"/brokers/topic_ids/{topic_id.hex()}") is None,
        HEALED_S,
    )
    operator.admin.create_topic("torn-out", 2, 3)
    assert operator.ends("torn-out", 2) == [0, 0]


def test_b_a_topic_deleted_and_made_anew_between_two_reads_is_another_one(
    operator: ZooKeeperOperator,
) -> None:
    """Nobody sees the name away: only the number of changes, and the id, tell."""
    operator.admin.create_topic("reborn", 2, 3)
    operator.produce("reborn", 5, 2)
    old = operator.topic_id("reborn")
    swap = operator.zookeeper.transaction()
    for number in range(2):
        swap.delete(f"/brokers/topics/reborn/{number}/leaderAndISR")
        swap.delete(f"/brokers/topics/reborn/{number}")
    swap.delete("/brokers/topics/reborn")
    swap.create("/brokers/topics/reborn", b'{"0": [2, 3], "1": [3, 4], "2": [4, 1]}')
    assert all(isinstance(done, bool | str) for done in swap.commit())
    wait_until("it has another id", lambda: operator.topic_id_or_none("reborn") not in (None, old), HEALED_S)
    operator.wait_until_led("reborn", 3)
    assert operator.ends("reborn", 3) == [0, 0, 0]
    operator.produce("reborn", 2, 3)
    assert operator.ends("reborn", 3) == [2, 2, 2]
    wait_until("no broker keeps the old data", lambda: operator.holders(old) == {}, HEALED_S)
    wait_until(
        "its marker is gone", lambda: operator.content(f"/brokers/topic_ids/{old.hex()}") is None, HEALED_S
    )


def test_f_partitions_move_to_where_a_bare_list_says(operator: ZooKeeperOperator) -> None:
    with FaultDrill(operator.cluster, "moved-by-hand") as drill:
        for number in range(3):
            operator.put(f"{MOVES}/moved-by-hand/{number}", b"[4,2,3]")
        wait_until("AR is RAR", lambda: all(p.replicas == (4, 2, 3) for p in drill.describe()), HEALED_S)
        operator.wait_until_done()
        drill.wait_for_isr(3)
        topic_id = operator.topic_id("moved-by-hand")
        wait_until("broker 1 deletes its replica", lambda: 1 not in operator.holders(topic_id), HEALED_S)
        drill.wait_for_progress()


def test_f_a_move_gets_another_goal_and_is_taken_back_by_hand(operator: ZooKeeperOperator) -> None:
    with FaultDrill(operator.cluster, "goal-changed") as drill:
        operator.cluster.pause("broker-4")
        for number in range(3):
            operator.put(f"{MOVES}/goal-changed/{number}", b'{"replicas": [4, 2, 3]}')
        wait_until("it has begun", lambda: all(4 in p.replicas for p in drill.describe()), HEALED_S)
        operator.put(f"{MOVES}/goal-changed/0", b"[3,2]")
        operator.take_away(f"{MOVES}/goal-changed/1")
        # The old replicas are a goal too.
        operator.put(f"{MOVES}/goal-changed/2", b"[1,2,3]")
        expected = [(3, 2), (1, 3, 2), (1, 2, 3)]
        wait_until("all is settled", lambda: [p.replicas for p in drill.describe()] == expected, HEALED_S)
        operator.wait_until_done()
        operator.cluster.resume("broker-4")
        operator.put(f"{MOVES}/goal-changed/0", b"[3,2,1]")
        operator.wait_until_done()
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        topic_id = operator.topic_id("goal-changed")
        wait_until("broker 4 has nothing", lambda: 4 not in operator.holders(topic_id), HEALED_S)


def test_h_partitions_come_and_go_by_hand(operator: ZooKeeperOperator) -> None:
    operator.admin.create_topic("resized", assignment=[[1, 2, 3], [2, 3, 4]])
    operator.produce("resized", 4, 2)
    # Created from the last to the first: 3 waits until there is a 2.
    for number, replicas in ((3, b"[1,2]"), (2, b"[4,1,2]")):
        operator.put(f"{ADDITIONS}/resized/{number}", replicas)
    operator.wait_until_led("resized", 4)
    operator.wait_until_done()
    assert [each.replicas for each in operator.partitions("resized")][2:] == [(4, 1, 2), (1, 2)]
    operator.produce("resized", 3, 4)
    assert operator.ends("resized", 4) == [7, 7, 3, 3]
    for number in (1, 2, 3):
        operator.put(f"{REMOVALS}/resized/{number}")
    wait_until("one is left", lambda: len(operator.partitions("resized")) == 1, HEALED_S)
    operator.wait_until_done()
    held = operator.topic_id("resized")
    wait_until(
        "brokers delete their replicas",
        lambda: {n for each in operator.holders(held).values() for n in each} == {0},
        HEALED_S,
    )
    operator.put(f"{ADDITIONS}/resized/1", b"[2,3,4]")
    operator.wait_until_led("resized", 2)
    assert operator.ends("resized", 2) == [7, 0], "a number that comes back has none of its old records"
    operator.wait_until_done()
    wait_until("nothing is complained about", lambda: operator.complaints() == {}, HEALED_S)


def test_settings_written_by_hand_hold_at_once_and_fall_back_when_taken_away(
    operator: ZooKeeperOperator,
) -> None:
    operator.admin.create_topic("settled", 1, 3)
    operator.put("/config/topics/settled", b'{"configs": {"max.message.bytes": "2000"}}')
    wait_until(
        "the controller knows",
        lambda: configs_of(operator, "settled") == {"max.message.bytes": "2000"},
        HEALED_S,
    )
    wait_until(
        "the leader refuses what is too large", lambda: not takes(operator, "settled", 9_000), HEALED_S
    )
    assert takes(operator, "settled", 10)
    operator.take_away("/config/topics/settled")
    wait_until("the leader takes it again", lambda: takes(operator, "settled", 9_000), HEALED_S)
    wait_until("the controller knows that, too", lambda: configs_of(operator, "settled") == {}, HEALED_S)


def test_the_speed_limit_of_moves_is_a_znode(operator: ZooKeeperOperator) -> None:
    operator.put("/config/reassignment", b'{"throttle_bytes_per_s": 5000000}')
    wait_until("it holds", lambda: throttle_of(operator) == 5_000_000, HEALED_S)
    operator.put("/config/reassignment", b"fast")
    wait_until("nonsense is told", lambda: "/config/reassignment" in operator.complaints(), HEALED_S)
    assert throttle_of(operator) == 5_000_000, "the limit that was set holds on"
    operator.take_away("/config/reassignment")
    wait_until("there is none", lambda: throttle_of(operator) == 0, HEALED_S)
    wait_until("nothing is complained about", lambda: operator.complaints() == {}, HEALED_S)


def configs_of(operator: ZooKeeperOperator, topic: str) -> dict[str, str]:
    return dict(operator.admin.describe_topics([topic])[0].configs)


def throttle_of(operator: ZooKeeperOperator) -> int:
    return operator.admin.describe_cluster().reassignment_throttle_bytes_per_s


def takes(operator: ZooKeeperOperator, topic: str, size_bytes: int) -> bool:
    """Whether the leader takes a record of this size."""
    with Producer(operator.cluster.bootstrap) as producer:
        try:
            producer.send(topic, os.urandom(size_bytes), partition=0).result(HEALED_S)
        except (RecordTooLargeError, BatchTooLargeError):
            return False
    return True


# ---- nonsense

NONSENSE = {
    f"{MOVES}/odd/0": b"{",
    f"{MOVES}/odd/1": b"[1,1]",
    f"{MOVES}/odd/2": b"[77,2,3]",
    f"{MOVES}/odd/3": b"[1,2,3,4,5]",
    f"{MOVES}/odd/4": b"[]",
    f"{MOVES}/odd/5": b'{"replicas": "all"}',
    f"{MOVES}/odd/6": b"",
    f"{MOVES}/odd/7": b"\xff\x00",
    f"{MOVES}/odd/99": b"[1,2,3]",
    f"{MOVES}/odd/first": b"[1,2,3]",
    f"{MOVES}/odd/-1": b"[1,2,3]",
    f"{MOVES}/unknown/0": b"[1,2,3]",
    f"{MOVES}/il legal/0": b"[1,2,3]",
    f"{MOVES}/odd/2/deeper": b"[1]",
    f"{ADDITIONS}/odd/0": b"[1,2,3]",
    f"{ADDITIONS}/odd/8": b"[1,",
    f"{ADDITIONS}/odd/10": b"[1,2,3]",
    f"{ADDITIONS}/odd/99999999999": b"[1,2,3]",
    f"{ADDITIONS}/small/1": b"[77]",
    f"{ADDITIONS}/tiny/1": b"[1,1]",
    f"{ADDITIONS}/unknown/0": b"[1]",
    f"{REMOVALS}/odd/0": b"",
    f"{REMOVALS}/odd/3": b"",
    f"{REMOVALS}/odd/99": b"",
    f"{REMOVALS}/odd/last": b"",
    f"{REMOVALS}/small/0": b"",
    f"{REMOVALS}/unknown/1": b"",
    f"{DELETIONS}/unknown": b"",
    f"{DELETIONS}/odd": b'{"topic_id": "not an id"}',
    f"{DELETIONS}/small": b"certainly",
    f"{DELETIONS}/il legal": b"",
    "/admin/reboot": b"",
    "/admin/partitions_moved/odd/0": b"[1]",
    "/config/topics/odd": b'{"configs": {"flush": "never"}}',
    "/config/topics/small": b'{"configs": {"min.insync.replicas": "3"}}',
    "/config/topics/tiny": b"flush=fsync",
    "/config/topics/il legal": b"{}",
    "/config/reassignment": b'{"throttle_bytes_per_s": -1}',
    "/config/brokers": b"",
    "/brokers/topics/gap": b'{"0": [1], "2": [1]}',
    "/brokers/topics/twice": b'{"0": [1, 1]}',
    "/brokers/topics/no-json": b"partitions=3",
    "/brokers/topics/il legal": b'{"0": [1]}',
}


def test_nonsense_is_told_everywhere_and_harms_nothing(operator: ZooKeeperOperator) -> None:
    operator.admin.create_topic("odd", 8, 3)
    operator.admin.create_topic("small", 1, 1)
    operator.admin.create_topic("tiny", 1, 1)
    before = {name: operator.partitions(name) for name in ("odd", "small", "tiny")}
    logged_before = {path: operator.log_lines(f"{path}: ") for path in NONSENSE}
    wait_until("the cluster is healthy", lambda: health(operator)[0] == 0, HEALED_S)
    try:
        with FaultDrill(operator.cluster, "beside-nonsense") as drill:
            for path, content in NONSENSE.items():
                operator.put(path, content)
            wait_until_complained(operator)
            first = operator.cluster.active_controller()
            counts = {p: (operator.log_lines(f"{p}: ") - logged_before[p])[first] for p in NONSENSE}
            assert set(counts.values()) == {1}, {p: n for p, n in counts.items() if n != 1}
            other_work_goes_on(operator, drill)

            operator.cluster.kill(first)
            second = operator.cluster.active_controller(HEALED_S)
            assert second != first
            wait_until_complained(operator)
            other_work_goes_on(operator, drill)
            operator.cluster.restart(first, wait=False)
            for name, partitions in before.items():
                assert [(p.replicas, p.leader_epoch) for p in operator.partitions(name)] == [
                    (p.replicas, p.leader_epoch) for p in partitions
                ], f"{name} was touched"
            wrong = {
                path: operator.content(path) for path in NONSENSE if operator.content(path) != NONSENSE[path]
            }
            assert wrong == {}, "it is left as it was written"
            drill.wait_for_progress()
    finally:
        for path in reversed(NONSENSE):
            with contextlib.suppress(NoNodeError):
                operator.take_away(path)
        for name in [*operator.asked_for(), "partitions_moved"]:
            with contextlib.suppress(NoNodeError):
                operator.take_away(f"/admin/{name}")
    wait_until("nothing is complained about", lambda: operator.complaints() == {}, HEALED_S)
    wait_until("the metric says so", lambda: operator.complaints_counted() == 0, HEALED_S)
    wait_until("the cluster is healthy", lambda: health(operator)[0] == 0, HEALED_S)
    operator.produce("odd", 1, 8)


def wait_until_complained(operator: ZooKeeperOperator) -> None:
    """By the controller, the command and the metric."""
    missing: list[str] = []

    def none_is_missing() -> bool:
        missing[:] = sorted(set(NONSENSE) - set(operator.complaints()))
        return not missing

    try:
        wait_until("a complaint about each", none_is_missing, HEALED_S)
    except NotInTimeError as error:
        error.add_note(f"missing: {missing}")
        raise
    code, document = health(operator)
    assert code == 1
    assert not document["healthy"]
    assert {each["subject"] for each in document["complaints"]} >= set(NONSENSE)
    wait_until(
        "the metric counts them",
        lambda: operator.complaints_counted() == len(operator.complaints()),
        HEALED_S,
    )


def other_work_goes_on(operator: ZooKeeperOperator, drill: FaultDrill) -> None:
    """A topic is created, grown, moved, shrunk and deleted; the load goes on."""
    operator.admin.create_topic("sane", 2, 3)
    operator.admin.add_partitions("sane", 3)
    operator.put(f"{MOVES}/sane/0", b"[4,1]")
    wait_until("it moved", lambda: operator.partitions("sane")[0].replicas == (4, 1), HEALED_S)
    operator.admin.remove_partitions("sane", 1)
    operator.admin.delete_topic("sane")
    drill.wait_for_progress()


def health(operator: ZooKeeperOperator) -> tuple[int, dict[str, Any]]:
    """`hightide cluster health`: its exit code and what it says."""
    run = subprocess.run(
        [sys.executable, "-m", "hightide_cli.main", "cluster", "health", "-o", "json"],
        capture_output=True,
        timeout=100,
        env={**os.environ, "HIGHTIDE_BOOTSTRAP": operator.cluster.bootstrap},
    )
    assert run.stdout, run.stderr.decode()
    return run.returncode, json.loads(run.stdout)


def test_nonsense_that_is_corrected_in_place_is_carried_out(operator: ZooKeeperOperator) -> None:
    operator.admin.create_topic("mended", assignment=[[1, 2]])
    nonsense = {
        f"{MOVES}/mended/0": b"[1,",
        f"{ADDITIONS}/mended/1": b"[77]",
        "/config/topics/mended": b'{"configs": {"retention.ms": "soon"}}',
        "/brokers/topics/mended-too": b'{"0": [1, 1]}',
    }
    for path, content in nonsense.items():
        operator.put(path, content)
    wait_until("a complaint about each", lambda: set(nonsense) <= set(operator.complaints()), HEALED_S)
    operator.put(f"{MOVES}/mended/0", b"[3,4]")
    operator.put(f"{ADDITIONS}/mended/1", b"[4,1]")
    operator.put("/config/topics/mended", b'{"configs": {"retention.ms": "60000"}}')
    operator.put("/brokers/topics/mended-too", b'{"0": [1, 2]}')
    operator.wait_until_led("mended-too", 1)
    operator.wait_until_led("mended", 2)
    expected = [(3, 4), (4, 1)]
    wait_until("it moved", lambda: [p.replicas for p in operator.partitions("mended")] == expected, HEALED_S)
    configs = {"retention.ms": "60000"}
    wait_until("the settings hold", lambda: configs_of(operator, "mended") == configs, HEALED_S)
    operator.wait_until_done()
    wait_until("nothing is complained about", lambda: operator.complaints() == {}, HEALED_S)


# ---- leaderAndISR


def test_a_leader_and_isr_taken_away_comes_back_when_it_is_needed(operator: ZooKeeperOperator) -> None:
    with FaultDrill(operator.cluster, "state-taken") as drill:
        path = "/brokers/topics/state-taken/0/leaderAndISR"
        operator.take_away(path)
        drill.wait_for_progress()
        leader = drill.leader(1)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        assert drill.describe()[0].leader_epoch == 1, "an epoch came twice"
        drill.restart(leader)
        drill.wait_for_isr(3)
        assert operator.content(path) is not None
        drill.wait_for_progress()


@pytest.mark.parametrize(
    "content", [b"garbage", b'{"leader": 1, "leader_epoch": 0, "isr": [], "controller_epoch": 1}']
)
def test_a_leader_and_isr_of_garbage_is_told_and_left_alone(
    operator: ZooKeeperOperator, content: bytes
) -> None:
    """The leader serves on: what it decided holds. When the right one is put back, elections work again."""
    name = f"state-garbage-{len(content)}"
    with FaultDrill(operator.cluster, name) as drill:
        path = f"/brokers/topics/{name}/0/leaderAndISR"
        before = operator.content(path)
        assert before is not None
        operator.put(path, content)
        drill.wait_for_progress()
        follower = 2
        drill.kill(follower)
        # The ISR of partition 0 cannot shrink in ZooKeeper, so the leader says no more than it may.
        wait_until("it is complained about", lambda: path in operator.complaints(), HEALED_S)
        assert operator.content(path) == content
        drill.restart(follower)
        operator.put(path, before)
        wait_until("the complaint is gone", lambda: path not in operator.complaints(), HEALED_S)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        leader = drill.leader(0)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.restart(leader)
        drill.wait_for_isr(3)


def test_a_stale_leader_and_isr_put_back_by_hand_loses_nothing(operator: ZooKeeperOperator) -> None:
    """What stood there two leaders ago: an operator that restores a backup."""
    with FaultDrill(operator.cluster, "state-stale") as drill:
        path = "/brokers/topics/state-stale/0/leaderAndISR"
        stale = operator.content(path)
        assert stale is not None
        leader = drill.leader(0)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.restart(leader)
        drill.wait_for_isr(3)
        operator.put(path, stale)
        drill.wait_for_progress()
        leader = drill.leader(0)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
