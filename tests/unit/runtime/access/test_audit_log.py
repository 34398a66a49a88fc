"""The audit log: what a line tells, and that no caller can flood it."""

import json
import logging
from collections.abc import Callable

import pytest
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide_runtime.access.audit import DENIALS_MAX, WINDOW_S, AuditedCall, AuditLog
from hightide_runtime.access.principals import ANONYMOUS, Principal, Role
from hightide_runtime.access.rules import rule_of
from hightide_runtime.access.subjects import CHARACTERS_MAX, SUBJECTS_MAX, subjects_of

SERVICE = "hightide.v1.ControllerService"
DELETE = rule_of(SERVICE, "DeleteTopic")
TRACE_ID = "0af7651916cd43dd8448eb211c80319c"


class HandTimer:
    """Calls back when a test says that the time has come."""

    def __init__(self) -> None:
        self.due: list[tuple[float, Callable[[], object]]] = []

    def call_later(self, delay_s: float, callback: Callable[[], object]) -> None:
        self.due.append((delay_s, callback))

    def elapse(self) -> None:
        due, self.due = self.due, []
        for _, callback in due:
            callback()


def call(
    caller: Principal = ANONYMOUS,
    peer: str = "ipv4:10.0.0.7:50144",
    method: str = "DeleteTopic",
    trace: str = "",
) -> AuditedCall:
    return AuditedCall(caller, peer, "external", f"/{SERVICE}/{method}", DELETE, trace)


@pytest.fixture
def timer() -> HandTimer:
    return HandTimer()


@pytest.fixture
def audit(timer: HandTimer) -> AuditLog:
    return AuditLog(timer.call_later)


def lines(caplog: pytest.LogCaptureFixture) -> list[dict[str, object]]:
    return [json.loads(each.getMessage()) for each in caplog.records if each.name == "hightide.audit"]


def test_a_call_is_told_with_who_what_where_from_and_how_it_ended(
    audit: AuditLog, caplog: pytest.LogCaptureFixture
) -> None:
    audit.allowed(call(Principal(Role.CLIENT, "alice"), trace=TRACE_ID), ["orders"], 0, False, "OK")
    assert lines(caplog) == [
        {
            "who": "client/alice",
            "from": "ipv4:10.0.0.7:50144",
            "listener": "external",
            "method": f"/{SERVICE}/DeleteTopic",
            "operation": "delete",
            "resource": "topic",
            "trace": TRACE_ID,
            "allowed": True,
            "outcome": "OK",
            "subjects": ["orders"],
        }
    ]


def test_a_trial_says_that_it_is_one(audit: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    audit.allowed(call(), ["orders"], 0, True, "UNKNOWN_TOPIC")
    (line,) = lines(caplog)
    assert (line["validate_only"], line["outcome"]) == (True, "UNKNOWN_TOPIC")


def test_a_denial_says_why(audit: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    audit.denied(call(), "it is for brokers")
    (line,) = lines(caplog)
    assert (line["who"], line["allowed"], line["why"]) == ("anonymous", False, "it is for brokers")


def test_the_log_level_of_a_process_does_not_silence_it(
    audit: AuditLog, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(logging.getLogger(), "level", logging.ERROR)
    audit.allowed(call(), [], 0, False, "OK")
    assert len(lines(caplog)) == 1


def test_a_denial_that_is_repeated_is_counted_and_the_count_is_told_after_a_second(
    audit: AuditLog, timer: HandTimer, caplog: pytest.LogCaptureFixture
) -> None:
    for port in range(1000):
        audit.denied(call(peer=f"ipv4:10.0.0.7:{port}"), "no")
    assert len(lines(caplog)) == 1
    assert [delay_s for delay_s, _ in timer.due] == [WINDOW_S]
    timer.elapse()
    assert lines(caplog)[1:] == [{"allowed": False, "suppressed": 999}]
    audit.denied(call(), "no")
    timer.elapse()
    assert len(lines(caplog)) == 3
    assert timer.due == []


def test_denials_of_others_have_lines_of_their_own(audit: AuditLog, caplog: pytest.LogCaptureFixture) -> None:
    for other in (
        call(),
        call(peer="ipv4:10.0.0.8:50144"),
        call(caller=Principal(Role.CLIENT, "mallory")),
        call(method="CreateTopic"),
    ):
        audit.denied(other, "no")
    assert len(lines(caplog)) == 4


def test_a_second_has_so_many_lines_at_most(
    audit: AuditLog, timer: HandTimer, caplog: pytest.LogCaptureFixture
) -> None:
    for host in range(DENIALS_MAX + 7):
        audit.denied(call(peer=f"ipv6:[fd00::{host:x}]:50144"), "no")
    timer.elapse()
    assert len(lines(caplog)) == DENIALS_MAX + 1
    assert lines(caplog)[-1]["suppressed"] == 7


def test_subjects_are_what_the_path_leads_to_each_once() -> None:
    request = controller_pb2.ReassignPartitionsRequest()
    for topic, partition in (("b", 0), ("a", 0), ("b", 1)):
        request.moves.add().partition.CopyFrom(controller_pb2.PartitionName(topic=topic, partition=partition))
    assert subjects_of(request, ("moves", "partition", "topic")) == (["b", "a"], 0)
    assert subjects_of(request, ()) == ([], 0)


def test_subjects_are_bounded_in_number_and_length() -> None:
    names = [f"{number}" + "x" * 1000 for number in range(SUBJECTS_MAX + 3)]
    request = controller_pb2.ElectLeadersRequest(
        partitions=[controller_pb2.PartitionName(topic=name) for name in names]
    )
    subjects, more = subjects_of(request, ("partitions", "topic"))
    assert subjects == [name[:CHARACTERS_MAX] for name in names[:SUBJECTS_MAX]]
    assert more == 3


def test_ids_are_told_as_elsewhere_in_the_log() -> None:
    request = controller_pb2.DeleteTopicRequest(topic="t", topic_id=b"\x01\xff")
    assert subjects_of(request, ("topic_id",)) == (["01ff"], 0)
