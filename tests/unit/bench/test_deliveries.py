"""How long a partition's clients waited is the longest time without an acknowledgement."""

from hightide_bench.measuring.deliveries import DeliveryTimes


def times_of(**by_partition: list[float]) -> DeliveryTimes:
    return DeliveryTimes.of({int(name[1:]): times for name, times in by_partition.items()})


def test_the_wait_counts_from_the_kill_to_the_next_acknowledgement() -> None:
    times = times_of(p0=[90, 99, 400, 410], p1=[95, 105, 115, 405])
    assert times.longest_waits_ms(100, 410) == {0: 300, 1: 290}


def test_a_partition_that_never_comes_back_waits_until_the_end() -> None:
    assert times_of(p0=[50]).longest_waits_ms(100, 1100) == {0: 1000}


def test_acknowledgements_outside_the_window_do_not_count() -> None:
    assert times_of(p0=[10, 5000]).longest_waits_ms(100, 200) == {0: 100}


def test_partitions_that_acknowledged_after_a_moment_are_known() -> None:
    times = DeliveryTimes([0, 1, 2])
    times.acknowledged(0, 10)
    times.acknowledged(1, 30)
    assert times.acknowledged_since(20) == {1}
    assert times.total() == 2
