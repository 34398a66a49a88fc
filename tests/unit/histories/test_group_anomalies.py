"""The judge of consumer groups: an operator-made history for each way in which a group can break its
promises."""

import pytest
from histories.group_anomalies import (
    Committed,
    Given,
    GroupHistory,
    HandedOut,
    Kind,
    OffsetSeen,
    find_group_anomalies,
)


def handed(at_ms: float, first: int, following: int, generation: int = 1) -> HandedOut:
    return HandedOut(at_ms, 0, generation, first, following)


def seen(at_ms: float, offset: int) -> OffsetSeen:
    return OffsetSeen(at_ms, at_ms + 1, 0, offset)


def kinds(history: GroupHistory) -> list[Kind]:
    return [anomaly.kind for anomaly in find_group_anomalies(history)]


def sound() -> GroupHistory:
    """Two consumers, one after the other; the first died before it committed its last ten."""
    return GroupHistory(
        reports={
            "a": [Given(1, 0, 1), handed(2, 0, 50), Committed(3, 0, 50), handed(4, 50, 60)],
            "b": [Given(10, 0, 2), handed(11, 50, 100, generation=2)],
        },
        offsets=[seen(4, 50), seen(20, 100)],
        ends={0: 100},
    )


def test_a_group_that_reads_again_what_the_dead_had_not_committed_keeps_its_promises() -> None:
    assert kinds(sound()) == []
    assert sound().redelivered() == 10


@pytest.mark.parametrize(
    ("consumer", "report", "kind"),
    [
        ("b", Given(12, 0, 1), Kind.DOUBLE_OWNED),
        ("b", handed(12, 50, 60), Kind.DOUBLE_OWNED),
        ("a", handed(12, 60, 70), Kind.OLD_OWNER_READS),
        ("b", handed(12, 101, 102, generation=2), Kind.LEFT_OUT),
        ("b", Committed(12, 0, 200), Kind.COMMIT_LOST),
    ],
)
def test_a_report_that_breaks_a_promise(
    consumer: str, report: Given | HandedOut | Committed, kind: Kind
) -> None:
    history = sound()
    history.reports[consumer].append(report)
    assert kind in kinds(history)


@pytest.mark.parametrize(
    ("offset", "kind"), [(seen(21, 99), Kind.COMMIT_WENT_BACK), (seen(21, 101), Kind.COMMIT_AHEAD)]
)
def test_an_offset_that_breaks_a_promise(offset: OffsetSeen, kind: Kind) -> None:
    history = sound()
    history.offsets.append(offset)
    assert kinds(history) == [kind]


@pytest.mark.parametrize(("partition", "end"), [(0, 101), (1, 1)])
def test_a_record_that_nobody_read(partition: int, end: int) -> None:
    history = sound()
    history.ends[partition] = end
    assert kinds(history) == [Kind.SKIPPED]


def test_a_gap_that_nobody_filled() -> None:
    history = sound()
    history.reports["b"] = [Given(10, 0, 2), handed(11, 61, 100, generation=2)]
    assert kinds(history) == [Kind.SKIPPED]


def test_what_a_poll_had_in_hand_when_the_process_was_stopped_is_excused() -> None:
    history = sound()
    history.reports["a"].append(HandedOut(12, 0, 1, 60, 70, is_excused=True))
    assert kinds(history) == []
