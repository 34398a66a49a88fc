"""A judge condemns what is wrong with an error of its own, also where Python leaves `assert` out."""

import ast
import pkgutil
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import hightide_local.histories
import pytest
from hightide_local.histories.anomalies import Anomaly, AnomalyKind
from hightide_local.histories.history import EndSeen, History, LogPlace, ReadRecord, SendOutcome, SentRecord
from hightide_local.histories.judgement import judge_clients, judge_records, judge_replicas
from hightide_local.histories.violation import NotInTimeError, ViolationError
from hightide_local.histories.waiting import wait_until


def history(
    *, is_lost: bool = False, outcome: SendOutcome = SendOutcome.ACKNOWLEDGED, reader: str = "tail"
) -> History:
    """Two records that were sent, and read unless the first of them is lost."""
    places = [LogPlace("t", 0, offset) for offset in range(2)]
    told = History()
    for number, place in enumerate(places):
        value = f"v{number}".encode()
        told.sends.append(SentRecord("p", number, b"k", value, outcome, place, number))
        if number or not is_lost:
            told.reads.append(ReadRecord(reader, place, b"k", value))
    told.ends.append(EndSeen("o", LogPlace("t", 0, 2), 5, 6))
    return told


def test_who_keeps_all_promises_is_not_condemned() -> None:
    judge_clients(history(), [])
    judge_records(history())
    judge_replicas([])
    wait_until("it is so", lambda: True, 0)


def test_a_lost_record_is_a_violation_that_tells_what_was_seen() -> None:
    with pytest.raises(
        ViolationError, match=r"1 anomalies\nLOST: b'v0' of p, acknowledged at t-0@0"
    ) as raised:
        judge_records(history(is_lost=True))
    (seen,) = raised.value.seen
    assert isinstance(seen, Anomaly)
    assert seen.kind is AnomalyKind.LOST
    judge_records(history(is_lost=True), {AnomalyKind.LOST})


def test_of_many_things_that_were_seen_the_message_tells_the_first_and_counts_the_rest() -> None:
    with pytest.raises(ViolationError) as raised:
        judge_replicas(f"difference {number}" for number in range(12))
    assert str(raised.value).splitlines()[1] == "difference 0"
    assert str(raised.value).endswith("difference 9\n… and 2 more")
    assert len(raised.value.seen) == 12


CONDEMNED = {
    "an error of a client": (history(), ["it broke"], "it broke"),
    "a record that was not acknowledged": (
        history(outcome=SendOutcome.UNKNOWN),
        [],
        "each record is acknowledged",
    ),
    "nobody who read along": (history(reader="afterwards"), [], "one reader reads along"),
    "nothing that was sent": (History([], history().reads, history().ends), [], "something is sent"),
    "nobody who watched": (History(history().sends, history().reads), [], "watches the high watermark"),
}


@pytest.mark.parametrize("name", CONDEMNED)
def test_a_history_that_proves_nothing_is_a_violation(name: str) -> None:
    told, errors, message = CONDEMNED[name]
    with pytest.raises(ViolationError, match=message):
        judge_clients(told, errors)


#: Run by a Python that leaves `assert` out.
PROGRAM = """
from hightide_local.histories.judgement import judge_replicas
from hightide_local.histories.violation import ViolationError
from hightide_local.histories.waiting import wait_until

assert False, "this Python looks at assertions"
for judge in (lambda: judge_replicas(["a byte"]), lambda: wait_until("the moon", lambda: False, 0)):
    try:
        judge()
    except ViolationError as violation:
        print(str(violation).splitlines()[0])
"""


def test_judges_condemn_also_where_assertions_are_left_out() -> None:
    run = subprocess.run([sys.executable, "-O", "-c", PROGRAM], capture_output=True, text=True, timeout=60)
    assert (run.returncode, run.stdout.splitlines()) == (
        0,
        ["all replicas hold the same bytes", "not within 0 s: the moon; the last answer was False"],
    ), run.stderr


JUDGES = [
    *(
        each.name
        for each in pkgutil.iter_modules(hightide_local.histories.__path__, "hightide_local.histories.")
    ),
    "hightide_bench.campaign.campaign",
    "histories.group_anomalies",
    "histories.group_drill",
    "histories.zookeeper_outage",
]


@pytest.mark.parametrize("name", JUDGES)
def test_no_judge_relies_on_assertions(name: str) -> None:
    spec = find_spec(name)
    assert spec is not None
    assert spec.origin is not None
    tree = ast.parse(Path(spec.origin).read_text())
    assert [node.lineno for node in ast.walk(tree) if isinstance(node, ast.Assert)] == []
    caught = [node for node in ast.walk(tree) if isinstance(node, ast.Name) and node.id == "AssertionError"]
    assert caught == []


def test_what_is_not_in_time_is_a_violation() -> None:
    assert issubclass(NotInTimeError, ViolationError)
