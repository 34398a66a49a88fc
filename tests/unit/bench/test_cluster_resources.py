"""What a cluster uses is counted by kind of process, and only between two readings."""

import pytest
from hightide_bench.measuring.cluster_resources import ProcessorSeconds, kind_of, wait_for_quiet


def test_the_seconds_of_all_brokers_are_added_up() -> None:
    before = ProcessorSeconds(10.0, {"broker-1": 1.0, "broker-2": 2.0, "controller-1": 0.5, "zookeeper": 4.0})
    after = ProcessorSeconds(20.0, {"broker-1": 1.5, "broker-2": 2.25, "controller-1": 0.5, "zookeeper": 5.0})
    used = {"broker": 0.75, "controller": 0.0, "coordinator": 0.0, "zookeeper": 1.0}
    assert after.since(before) == used
    assert after.percent_since(before) == {kind: seconds * 10 for kind, seconds in used.items()}


def test_a_killed_process_counts_with_nothing_and_a_new_one_with_all() -> None:
    before = ProcessorSeconds(0.0, {"broker-1": 100.0})
    after = ProcessorSeconds(1.0, {"broker-2": 3.0})
    assert after.since(before)["broker"] == 3.0


@pytest.mark.parametrize(
    ("name", "kind"),
    [("broker-12", "broker"), ("controller-1", "controller"), ("coordinator-2", "coordinator")],
)
def test_a_process_is_of_the_kind_that_its_name_begins_with(name: str, kind: str) -> None:
    assert kind_of(name) == kind


class Machine:
    """Uses as much of a core in each window as it is told, then nothing."""

    def __init__(self, *percents: float) -> None:
        self.percents = list(percents)
        self.now_s = 0.0
        self.used_s = 0.0

    def read(self) -> ProcessorSeconds:
        return ProcessorSeconds(self.now_s, {"broker-1": self.used_s, "zookeeper": self.now_s})

    def sleep(self, seconds: float) -> None:
        self.now_s += seconds
        self.used_s += seconds * (self.percents.pop(0) if self.percents else 0.0) / 100


def waited_s(machine: Machine, *, quiet_s: float, timeout_s: float = 100) -> float:
    return wait_for_quiet(
        machine.read, machine.sleep, percent=10, window_s=2, quiet_s=quiet_s, timeout_s=timeout_s
    )


def test_it_is_quiet_after_the_first_window_with_little_use_whatever_zookeeper_does() -> None:
    assert waited_s(Machine(80, 40, 9), quiet_s=2) == 6.0


def test_a_pause_between_two_bursts_is_no_quiet() -> None:
    assert waited_s(Machine(80, 1, 1, 80, 1, 1, 1), quiet_s=6) == 14.0


def test_a_cluster_that_never_rests_is_waited_for_no_longer_than_said() -> None:
    assert waited_s(Machine(*[50] * 100), quiet_s=2, timeout_s=15) == 16.0
