"""A ZooKeeper shell is enough to operate: what V3 has a hand write is carried out, nonsense harms nothing.

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
from hightide_local.histories.drill import HEALED_S, Drill
from hightide_local.histories.violation import NotInTimeError
from hightide_local.histories.waiting import wait_until
from integration.controller.operators_hand import OperatorsHand
from kazoo.exceptions import NoNodeError

pytestmark = pytest.mark.cluster

MOVES, ADDITIONS, REMOVALS, DELETIONS = (
    f"/admin/{kind}"
    for kind in ("partitions_reassigned", "partitions_add", "partitions_remove", "delete_topics")
)


@pytest.fixture(scope="module")
def shared_hand(tmp_path_factory: pytest.TempPathFactory) -> Iterator[OperatorsHand]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "300")
        with LocalCluster(
            tmp_path_factory.mktemp("shell"),
            brokers=4,
            # A broker that stands still is still one to move to, and nobody is elected because of a slow one.
            session_timeout_ms=30_000,
        ) as cluster:
            hand = OperatorsHand(cluster)
            yield hand
            hand.close()


@pytest.fixture
def hand(shared_hand: OperatorsHand) -> Iterator[OperatorsHand]:
    """The cluster, whole again after a test that failed halfway."""
    yield shared_hand
    shared_hand.make_whole()


# ---- what is carried out


def test_b_a_topic_znode_as_the_text_describes_it_becomes_a_topic(hand: OperatorsHand) -> None:
    hand.put("/brokers/topics/bare", b'{"0": [1, 2], "1": [3, 4]}')
    hand.wait_until_led("bare", 2)
    assert [each.replicas for each in hand.partitions("bare")] == [(1, 2), (3, 4)]
    hand.produce("bare", 5, 2)
    assert hand.ends("bare", 2) == [5, 5]
    written = json.loads(hand.content("/brokers/topics/bare") or b"")
    assert written == {"topic_id": hand.topic_id("bare").hex(), "partitions": {"0": [1, 2], "1": [3, 4]}}
    marker = hand.content(f"/brokers/topic_ids/{written['topic_id']}")
    assert json.loads(marker or b"") == {"topic": "bare"}


def test_b_a_topic_goes_because_its_name_stands_below_delete_topics(hand: OperatorsHand) -> None:
    hand.admin.create_topic("goes", 3, 3, configs={"retention.ms": "3600000"})
    hand.produce("goes", 5, 3)
    topic_id = hand.topic_id("goes")
    assert hand.holders(topic_id)
    hand.put(f"{DELETIONS}/goes")
    wait_until("it is gone", lambda: not hand.exists("goes"), HEALED_S)
    hand.wait_until_done()
    wait_until("no broker keeps its data", lambda: hand.holders(topic_id) == {}, HEALED_S)
    paths = "/brokers/topics/goes", "/config/topics/goes", f"/brokers/topic_ids/{topic_id.hex()}"
    wait_until("its znodes are gone", lambda: all(hand.content(path) is None for path in paths), HEALED_S)


def test_b_a_topic_whose_znodes_a_hand_takes_away_is_gone(hand: OperatorsHand) -> None:
    hand.admin.create_topic("torn-out", 2, 3)
    hand.produce("torn-out", 5, 2)
    topic_id = hand.topic_id("torn-out")
    hand.take_away("/brokers/topics/torn-out")
    wait_until("it is gone", lambda: not hand.exists("torn-out"), HEALED_S)
    wait_until("no broker keeps its data", lambda: hand.holders(topic_id) == {}, HEALED_S)
    wait_until(
        "its marker is gone", lambda: hand.content(f"/brokers/topic_ids/{topic_id.hex()}") is None, HEALED_S
    )
    hand.admin.create_topic("torn-out", 2, 3)
    assert hand.ends("torn-out", 2) == [0, 0]


def test_b_a_topic_deleted_and_made_anew_between_two_reads_is_another_one(hand: OperatorsHand) -> None:
    """Nobody sees the name away: only the number of changes, and the id, tell."""
    hand.admin.create_topic("reborn", 2, 3)
    hand.produce("reborn", 5, 2)
    old = hand.topic_id("reborn")
    swap = hand.zookeeper.transaction()
    for number in range(2):
        swap.delete(f"/brokers/topics/reborn/{number}/leaderAndISR")
        swap.delete(f"/brokers/topics/reborn/{number}")
    swap.delete("/brokers/topics/reborn")
    swap.create("/brokers/topics/reborn", b'{"0": [2, 3], "1": [3, 4], "2": [4, 1]}')
    assert all(isinstance(done, bool | str) for done in swap.commit())
    wait_until("it has another id", lambda: hand.topic_id_or_none("reborn") not in (None, old), HEALED_S)
    hand.wait_until_led("reborn", 3)
    assert hand.ends("reborn", 3) == [0, 0, 0]
    hand.produce("reborn", 2, 3)
    assert hand.ends("reborn", 3) == [2, 2, 2]
    wait_until("no broker keeps the old data", lambda: hand.holders(old) == {}, HEALED_S)
    wait_until(
        "its marker is gone", lambda: hand.content(f"/brokers/topic_ids/{old.hex()}") is None, HEALED_S
    )


def test_f_partitions_move_to_where_a_bare_list_says(hand: OperatorsHand) -> None:
    with Drill(hand.cluster, "moved-by-hand") as drill:
        for number in range(3):
            hand.put(f"{MOVES}/moved-by-hand/{number}", b"[4,2,3]")
        wait_until("AR is RAR", lambda: all(p.replicas == (4, 2, 3) for p in drill.describe()), HEALED_S)
        hand.wait_until_done()
        drill.wait_for_isr(3)
        topic_id = hand.topic_id("moved-by-hand")
        wait_until("broker 1 lets go", lambda: 1 not in hand.holders(topic_id), HEALED_S)
        drill.wait_for_progress()


def test_f_a_move_gets_another_goal_and_is_taken_back_by_hand(hand: OperatorsHand) -> None:
    with Drill(hand.cluster, "goal-changed") as drill:
        hand.cluster.pause("broker-4")
        for number in range(3):
            hand.put(f"{MOVES}/goal-changed/{number}", b'{"replicas": [4, 2, 3]}')
        wait_until("it has begun", lambda: all(4 in p.replicas for p in drill.describe()), HEALED_S)
        hand.put(f"{MOVES}/goal-changed/0", b"[3,2]")
        hand.take_away(f"{MOVES}/goal-changed/1")
        # The old replicas are a goal too.
        hand.put(f"{MOVES}/goal-changed/2", b"[1,2,3]")
        expected = [(3, 2), (1, 3, 2), (1, 2, 3)]
        wait_until("all is settled", lambda: [p.replicas for p in drill.describe()] == expected, HEALED_S)
        hand.wait_until_done()
        hand.cluster.resume("broker-4")
        hand.put(f"{MOVES}/goal-changed/0", b"[3,2,1]")
        hand.wait_until_done()
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        topic_id = hand.topic_id("goal-changed")
        wait_until("broker 4 has nothing", lambda: 4 not in hand.holders(topic_id), HEALED_S)


def test_h_partitions_come_and_go_by_hand(hand: OperatorsHand) -> None:
    hand.admin.create_topic("resized", assignment=[[1, 2, 3], [2, 3, 4]])
    hand.produce("resized", 4, 2)
    # Created from the last to the first: 3 waits until there is a 2.
    for number, replicas in ((3, b"[1,2]"), (2, b"[4,1,2]")):
        hand.put(f"{ADDITIONS}/resized/{number}", replicas)
    hand.wait_until_led("resized", 4)
    hand.wait_until_done()
    assert [each.replicas for each in hand.partitions("resized")][2:] == [(4, 1, 2), (1, 2)]
    hand.produce("resized", 3, 4)
    assert hand.ends("resized", 4) == [7, 7, 3, 3]
    for number in (1, 2, 3):
        hand.put(f"{REMOVALS}/resized/{number}")
    wait_until("one is left", lambda: len(hand.partitions("resized")) == 1, HEALED_S)
    hand.wait_until_done()
    held = hand.topic_id("resized")
    wait_until(
        "brokers let go", lambda: {n for each in hand.holders(held).values() for n in each} == {0}, HEALED_S
    )
    hand.put(f"{ADDITIONS}/resized/1", b"[2,3,4]")
    hand.wait_until_led("resized", 2)
    assert hand.ends("resized", 2) == [7, 0], "a number that comes back has none of its old records"
    hand.wait_until_done()
    wait_until("nothing is complained about", lambda: hand.complaints() == {}, HEALED_S)


def test_settings_written_by_hand_hold_at_once_and_fall_back_when_taken_away(hand: OperatorsHand) -> None:
    hand.admin.create_topic("settled", 1, 3)
    hand.put("/config/topics/settled", b'{"configs": {"max.message.bytes": "2000"}}')
    wait_until(
        "the controller knows", lambda: configs_of(hand, "settled") == {"max.message.bytes": "2000"}, HEALED_S
    )
    wait_until("the leader refuses what is too large", lambda: not takes(hand, "settled", 9_000), HEALED_S)
    assert takes(hand, "settled", 10)
    hand.take_away("/config/topics/settled")
    wait_until("the leader takes it again", lambda: takes(hand, "settled", 9_000), HEALED_S)
    wait_until("the controller knows that, too", lambda: configs_of(hand, "settled") == {}, HEALED_S)


def test_the_speed_limit_of_moves_is_a_znode(hand: OperatorsHand) -> None:
    hand.put("/config/reassignment", b'{"throttle_bytes_per_s": 5000000}')
    wait_until("it holds", lambda: throttle_of(hand) == 5_000_000, HEALED_S)
    hand.put("/config/reassignment", b"fast")
    wait_until("nonsense is told", lambda: "/config/reassignment" in hand.complaints(), HEALED_S)
    assert throttle_of(hand) == 5_000_000, "the limit that was set holds on"
    hand.take_away("/config/reassignment")
    wait_until("there is none", lambda: throttle_of(hand) == 0, HEALED_S)
    wait_until("nothing is complained about", lambda: hand.complaints() == {}, HEALED_S)


def configs_of(hand: OperatorsHand, topic: str) -> dict[str, str]:
    return dict(hand.admin.describe_topics([topic])[0].configs)


def throttle_of(hand: OperatorsHand) -> int:
    return hand.admin.describe_cluster().reassignment_throttle_bytes_per_s


def takes(hand: OperatorsHand, topic: str, size_bytes: int) -> bool:
    """Whether the leader takes a record of this size."""
    with Producer(hand.cluster.bootstrap) as producer:
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


def test_nonsense_is_told_everywhere_and_harms_nothing(hand: OperatorsHand) -> None:
    hand.admin.create_topic("odd", 8, 3)
    hand.admin.create_topic("small", 1, 1)
    hand.admin.create_topic("tiny", 1, 1)
    before = {name: hand.partitions(name) for name in ("odd", "small", "tiny")}
    logged_before = {path: hand.log_lines(f"{path}: ") for path in NONSENSE}
    wait_until("the cluster is healthy", lambda: health(hand)[0] == 0, HEALED_S)
    try:
        with Drill(hand.cluster, "beside-nonsense") as drill:
            for path, content in NONSENSE.items():
                hand.put(path, content)
            wait_until_complained(hand)
            first = hand.cluster.active_controller()
            counts = {p: (hand.log_lines(f"{p}: ") - logged_before[p])[first] for p in NONSENSE}
            assert set(counts.values()) == {1}, {p: n for p, n in counts.items() if n != 1}
            other_work_goes_on(hand, drill)

            hand.cluster.kill(first)
            second = hand.cluster.active_controller(HEALED_S)
            assert second != first
            wait_until_complained(hand)
            other_work_goes_on(hand, drill)
            hand.cluster.restart(first, wait=False)
            for name, partitions in before.items():
                assert [(p.replicas, p.leader_epoch) for p in hand.partitions(name)] == [
                    (p.replicas, p.leader_epoch) for p in partitions
                ], f"{name} was touched"
            wrong = {path: hand.content(path) for path in NONSENSE if hand.content(path) != NONSENSE[path]}
            assert wrong == {}, "it is left as it was written"
            drill.wait_for_progress()
    finally:
        for path in reversed(NONSENSE):
            with contextlib.suppress(NoNodeError):
                hand.take_away(path)
        for name in [*hand.asked_for(), "partitions_moved"]:
            with contextlib.suppress(NoNodeError):
                hand.take_away(f"/admin/{name}")
    wait_until("nothing is complained about", lambda: hand.complaints() == {}, HEALED_S)
    wait_until("the metric says so", lambda: hand.complaints_counted() == 0, HEALED_S)
    wait_until("the cluster is healthy", lambda: health(hand)[0] == 0, HEALED_S)
    hand.produce("odd", 1, 8)


def wait_until_complained(hand: OperatorsHand) -> None:
    """By the controller, the command and the metric."""
    missing: list[str] = []

    def none_is_missing() -> bool:
        missing[:] = sorted(set(NONSENSE) - set(hand.complaints()))
        return not missing

    try:
        wait_until("a complaint about each", none_is_missing, HEALED_S)
    except NotInTimeError as error:
        error.add_note(f"missing: {missing}")
        raise
    code, document = health(hand)
    assert code == 1
    assert not document["healthy"]
    assert {each["subject"] for each in document["complaints"]} >= set(NONSENSE)
    wait_until(
        "the metric counts them", lambda: hand.complaints_counted() == len(hand.complaints()), HEALED_S
    )


def other_work_goes_on(hand: OperatorsHand, drill: Drill) -> None:
    """A topic is created, grown, moved, shrunk and deleted; the load goes on."""
    hand.admin.create_topic("sane", 2, 3)
    hand.admin.add_partitions("sane", 3)
    hand.put(f"{MOVES}/sane/0", b"[4,1]")
    wait_until("it moved", lambda: hand.partitions("sane")[0].replicas == (4, 1), HEALED_S)
    hand.admin.remove_partitions("sane", 1)
    hand.admin.delete_topic("sane")
    drill.wait_for_progress()


def health(hand: OperatorsHand) -> tuple[int, dict[str, Any]]:
    """`hightide cluster health`: its exit code and what it says."""
    run = subprocess.run(
        [sys.executable, "-m", "hightide_cli.main", "cluster", "health", "-o", "json"],
        capture_output=True,
        timeout=100,
        env={**os.environ, "HIGHTIDE_BOOTSTRAP": hand.cluster.bootstrap},
    )
    assert run.stdout, run.stderr.decode()
    return run.returncode, json.loads(run.stdout)


def test_nonsense_that_is_corrected_in_place_is_carried_out(hand: OperatorsHand) -> None:
    hand.admin.create_topic("mended", assignment=[[1, 2]])
    nonsense = {
        f"{MOVES}/mended/0": b"[1,",
        f"{ADDITIONS}/mended/1": b"[77]",
        "/config/topics/mended": b'{"configs": {"retention.ms": "soon"}}',
        "/brokers/topics/mended-too": b'{"0": [1, 1]}',
    }
    for path, content in nonsense.items():
        hand.put(path, content)
    wait_until("a complaint about each", lambda: set(nonsense) <= set(hand.complaints()), HEALED_S)
    hand.put(f"{MOVES}/mended/0", b"[3,4]")
    hand.put(f"{ADDITIONS}/mended/1", b"[4,1]")
    hand.put("/config/topics/mended", b'{"configs": {"retention.ms": "60000"}}')
    hand.put("/brokers/topics/mended-too", b'{"0": [1, 2]}')
    hand.wait_until_led("mended-too", 1)
    hand.wait_until_led("mended", 2)
    expected = [(3, 4), (4, 1)]
    wait_until("it moved", lambda: [p.replicas for p in hand.partitions("mended")] == expected, HEALED_S)
    configs = {"retention.ms": "60000"}
    wait_until("the settings hold", lambda: configs_of(hand, "mended") == configs, HEALED_S)
    hand.wait_until_done()
    wait_until("nothing is complained about", lambda: hand.complaints() == {}, HEALED_S)


# ---- leaderAndISR


def test_a_leader_and_isr_taken_away_comes_back_when_it_is_needed(hand: OperatorsHand) -> None:
    with Drill(hand.cluster, "state-taken") as drill:
        path = "/brokers/topics/state-taken/0/leaderAndISR"
        hand.take_away(path)
        drill.wait_for_progress()
        leader = drill.leader(1)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        assert drill.describe()[0].leader_epoch == 1, "an epoch came twice"
        drill.restart(leader)
        drill.wait_for_isr(3)
        assert hand.content(path) is not None
        drill.wait_for_progress()


@pytest.mark.parametrize(
    "content", [b"garbage", b'{"leader": 1, "leader_epoch": 0, "isr": [], "controller_epoch": 1}']
)
def test_a_leader_and_isr_of_garbage_is_told_and_left_alone(hand: OperatorsHand, content: bytes) -> None:
    """The leader serves on: what it decided holds. When the right one is put back, elections work again."""
    name = f"state-garbage-{len(content)}"
    with Drill(hand.cluster, name) as drill:
        path = f"/brokers/topics/{name}/0/leaderAndISR"
        before = hand.content(path)
        assert before is not None
        hand.put(path, content)
        drill.wait_for_progress()
        follower = 2
        drill.kill(follower)
        # The ISR of partition 0 cannot shrink in ZooKeeper, so the leader says no more than it may.
        wait_until("it is complained about", lambda: path in hand.complaints(), HEALED_S)
        assert hand.content(path) == content
        drill.restart(follower)
        hand.put(path, before)
        wait_until("the complaint is gone", lambda: path not in hand.complaints(), HEALED_S)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
        leader = drill.leader(0)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.restart(leader)
        drill.wait_for_isr(3)


def test_a_stale_leader_and_isr_put_back_by_hand_loses_nothing(hand: OperatorsHand) -> None:
    """What stood there two leaders ago: a hand that restores a backup."""
    with Drill(hand.cluster, "state-stale") as drill:
        path = "/brokers/topics/state-stale/0/leaderAndISR"
        stale = hand.content(path)
        assert stale is not None
        leader = drill.leader(0)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.restart(leader)
        drill.wait_for_isr(3)
        hand.put(path, stale)
        drill.wait_for_progress()
        leader = drill.leader(0)
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.wait_for_progress()
        drill.restart(leader)
        drill.wait_for_isr(3)
        drill.wait_for_progress()
