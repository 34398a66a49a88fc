"""The overview says whether the cluster is well, and what is wrong first."""

from dataclasses import replace

from hightide import ReplicaListing
from hightide.errors import BrokersUnavailableError, ControllerUnavailableError
from hightide.servers import LogDirectory
from hightide_console.looks import Pulse, Reach, Survey
from hightide_console.views.grid import CellState
from hightide_console.views.overview import Overview, overview_of, status_of
from hightide_console.views.traffic import TrafficHistory
from hightide_console.watch import pulse_after
from unit.console.canned_cluster import AUDIT, CLUSTER, REPLICAS, partition, survey, topic

UP = Pulse(Reach.UP, 5_000, 1_000, "", CLUSTER)


def shown(pulse: Pulse = UP, seen: Survey | None = None) -> Overview:
    return overview_of(pulse, seen, TrafficHistory(), 8_000)


def figure(view: Overview, label: str) -> tuple[str, str]:
    return next((each.value, each.tone) for each in view.figures if each.label == label)


def test_before_the_first_answer_nothing_is_claimed() -> None:
    view = shown(Pulse())
    assert (view.status.word, view.is_known) == ("Connecting", False)


def test_a_cluster_without_problems_is_healthy() -> None:
    view = shown(seen=survey())
    assert (view.status.tone, view.status.word) == ("ok", "Healthy")
    assert view.problems == ()
    assert figure(view, "Brokers") == ("3 of 3", "")


def test_a_cluster_that_is_down_says_so_with_the_reason_and_keeps_what_was_known() -> None:
    down = pulse_after(UP, BrokersUnavailableError("no broker answers: 127.0.0.1:9091"), 6_000)
    view = shown(down, survey())
    assert (view.status.tone, view.status.word, view.status.since) == ("bad", "Down", "2 s")
    assert "127.0.0.1:9091" in view.status.sentence
    assert len(view.brokers) == 3


def test_without_a_controller_the_cluster_is_not_called_down() -> None:
    pulse = pulse_after(UP, ControllerUnavailableError("no controller is active"), 6_000)
    assert status_of(pulse, None, 6_000).word == "No controller"


def test_it_comes_back_with_the_first_answer() -> None:
    down = pulse_after(UP, BrokersUnavailableError("no broker answers"), 6_000)
    still = pulse_after(down, BrokersUnavailableError("no broker answers"), 7_000)
    assert still.since_ms == 6_000
    assert status_of(pulse_after(still, CLUSTER, 9_000), survey(), 9_000).word == "Healthy"


def test_a_dead_broker_and_what_it_led_are_the_problems() -> None:
    brokers = (*CLUSTER.brokers[:2], replace(CLUSTER.brokers[2], alive=False, address=None))
    cluster = replace(CLUSTER, brokers=brokers, offline_partition_count=1, under_replicated_partition_count=3)
    view = shown(replace(UP, cluster=cluster), survey())
    assert view.status.tone == "bad"
    assert view.problems == (
        "1 of 3 partitions without a leader",
        "3 of 3 partitions with a replica that is not in sync",
        "broker 3 is not alive",
    )
    assert figure(view, "Offline") == ("1", "bad")
    assert [(each.broker_id, each.state) for each in view.brokers] == [
        (1, "alive"),
        (2, "alive"),
        (3, "dead"),
    ]


def test_a_broker_that_is_registered_and_does_not_answer_is_silent() -> None:
    listing = ReplicaListing(REPLICAS.replicas, {2: "it timed out"})
    view = shown(seen=survey(replicas=listing))
    assert view.brokers[1].state == "silent"
    assert "broker 2 is registered and does not answer: it timed out" in view.problems


def test_partitions_that_are_not_well_are_listed_the_worst_first() -> None:
    orders = topic("orders", partition(0, isr=(1, 2)), partition(1, leader=None, isr=(2,)), partition(2))
    view = shown(seen=survey(orders, AUDIT))
    assert [(each.partition, each.state, each.missing) for each in view.unwell] == [
        (1, CellState.OFFLINE, "1, 3"),
        (0, CellState.UNDER_REPLICATED, "3"),
    ]
    assert [(each.name, each.unwell, each.tone) for each in view.topics] == [
        ("audit", 0, ""),
        ("orders", 2, "bad"),
    ]


def test_a_list_too_long_to_read_is_cut_and_counted() -> None:
    many = topic("many", *(partition(each, isr=(1,)) for each in range(1_000)))
    view = shown(seen=survey(many))
    assert (len(view.unwell), view.more_unwell) == (200, 800)


def test_standbys_and_missing_coordinators_have_their_line() -> None:
    view = shown(seen=survey(coordinators=(None,)))
    assert [(each.kind, each.name, each.tone) for each in view.roles] == [
        ("controller", "1", "ok"),
        ("controller", "2", "quiet"),
        ("coordinator", "", "bad"),
        ("coordinator", "1", "quiet"),
    ]


def test_disks_show_their_share_and_their_failure() -> None:
    directories = (
        LogDirectory(1, "/data/a", 100, 25, failed=False),
        LogDirectory(2, "/data/a", 0, 0, failed=True),
    )
    view = shown(seen=survey(directories=directories))
    assert [(each.used, each.is_failed) for each in view.brokers[0].disks] == [(75, False)]
    assert view.brokers[1].disks[0].is_failed
