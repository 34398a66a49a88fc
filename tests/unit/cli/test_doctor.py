"""What a doctor finds is judged soberly: a fault has a next step, and what is well is said in one line."""

import socket
import threading

import pytest
from hightide.servers import ServerDescription
from hightide_cli.doctor.address_findings import AddressReading, address_findings
from hightide_cli.doctor.examination import clock_reading, within
from hightide_cli.doctor.findings import (
    ClockReading,
    DiskReading,
    Finding,
    Verdict,
    clock_findings,
    disk_findings,
    file_limit_finding,
    findings_document,
    findings_text,
    java_finding,
    ok,
    proxy_findings,
    session_findings,
    skipped,
    standby_finding,
    version_findings,
    warn,
    worst,
    zookeeper_findings,
)
from hightide_cli.doctor.zookeeper_probe import ZooKeeperProbeError, look_at, servers_in

HERE = ["127.0.0.1"]
FAR = ["prod.example"]


def verdicts(findings: list[Finding]) -> list[Verdict]:
    assert all(each.next_step for each in findings if each.verdict in (Verdict.WARN, Verdict.FAIL))
    return [each.verdict for each in findings]


def reading(address: str = "b2:1", addresses: tuple[str, ...] = ("10.0.0.2",), **told: str) -> AddressReading:
    return AddressReading("broker 2", address, addresses, **told)


def test_who_stands_by_is_told_where_the_controller_tells_it() -> None:
    assert standby_finding((2, 3), (1, 1)).message == "2 controllers, 1 active, 3 coordinators, 1 active"
    assert standby_finding((1, 0), (1, 0)).message == "1 controller, 1 active, 0 coordinators, 0 active"
    assert standby_finding((0, 0), (1, 1)).verdict is Verdict.SKIPPED


def test_addresses_that_can_be_used_are_one_line() -> None:
    (found,) = address_findings([reading(cluster_id="c", calls_itself="broker 2")], "c", FAR)
    assert (found.verdict, found.message) == (Verdict.OK, "all 1 resolve, answer, and are of this cluster")


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        # What containers get wrong: the neighbours' name, the own loopback, everywhere.
        (reading("broker-2:1", ()), "and that name means nothing on this machine"),
        (reading("localhost:1", ("127.0.0.1", "::1")), "which is this machine"),
        (reading("0.0.0.0:1", ("0.0.0.0",)), "which is no address that anybody can connect to"),
        (reading(error="refused"), "where nobody answers: refused"),
        (reading(cluster_id="d"), "where cluster d answers, not c"),
        (reading(calls_itself="broker 3"), "where broker 3 answers"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_an_address_that_cannot_be_used_is_named_with_its_mend(wrong: AddressReading, message: str) -> None:
    findings = address_findings([reading(), wrong], "c", FAR)
    assert verdicts(findings) == [Verdict.FAIL]
    assert findings[0].message.startswith(f"broker 2 advertises {wrong.address}")
    assert message in findings[0].message


def test_a_cluster_of_this_machine_may_advertise_this_machine() -> None:
    local = reading("127.0.0.1:1", ("127.0.0.1",))
    assert verdicts(address_findings([local], "c", HERE)) == [Verdict.OK]
    assert verdicts(address_findings([local], "c", ["localhost"])) == [Verdict.OK]


def test_a_clock_is_wrong_only_for_certain() -> None:
    # An answer that took four seconds may have been given at either end of them.
    assert verdicts(clock_findings([ClockReading("broker 1", 1_900, 4_000)])) == [Verdict.OK]
    findings = clock_findings([ClockReading("broker 1", -2_000, 2), ClockReading("broker 2", 90_000, 2)])
    assert [(each.verdict, each.message) for each in findings] == [
        (Verdict.FAIL, "the clock of broker 2 is 89.999 s ahead of the one here"),
        (Verdict.WARN, "the clock of broker 1 is 1.999 s behind the one here"),
    ]
    assert verdicts(clock_findings([])) == [Verdict.SKIPPED]


def test_who_stands_still_behind_the_answer_does_not_find_the_clock_wrong() -> None:
    now_s = iter([1_000.0, 1_003.0])
    said = ServerDescription("broker", "1", "0.1.0", 0, 1_000_001, "b:1", "", 6_000, round_trip_ms=2)
    reading = clock_reading("broker 1", lambda: said, lambda: next(now_s))
    assert verdicts(clock_findings([reading])) == [Verdict.OK]


def test_versions_that_differ_are_an_upgrade_that_is_not_finished() -> None:
    assert verdicts(version_findings("1.0", {"broker 1": "1.0"})) == [Verdict.OK]
    (found,) = version_findings("1.0", {"broker 1": "0.9", "broker 2": "1.0"})
    assert (found.verdict, found.message) == (Verdict.WARN, "this command is 1.0, but broker 1 is 0.9")


def test_slow_detection_is_told_with_what_bounds_it() -> None:
    assert verdicts(session_findings({"broker 1": 6_000}, (1_000, 40_000))) == [Verdict.OK]
    slow = session_findings({"broker 1": 40_000, "broker 2": 6_000}, (40_000, 400_000))
    assert verdicts(slow) == [Verdict.WARN, Verdict.WARN]
    assert "tickTime (it is 20000 ms)" in str(slow[0].next_step)
    assert slow[1].message.startswith("broker 1 has 40 s")
    assert verdicts(session_findings({"broker 1": 0}, None)) == [Verdict.FAIL]
    assert verdicts(session_findings({}, None)) == [Verdict.SKIPPED]


def test_a_zookeeper_that_is_slow_or_without_a_leader_is_told() -> None:
    modes = {"z1:1": "follower", "z2:1": "follower"}
    findings = zookeeper_findings({"z1:1": 1.0, "z2:1": 80.0}, modes, {"z1:1": "3.9.3"})
    assert verdicts(findings) == [Verdict.OK, Verdict.WARN, Verdict.FAIL]
    assert findings[0].message == "z1:1 answers in 1.0 ms, follower, version 3.9.3"
    assert verdicts(zookeeper_findings({"z:1": 1.0}, {"z:1": "standalone"}, {"z:1": "3.9.3"})) == [Verdict.OK]


def test_a_disk_that_fills_up_or_failed_is_told() -> None:
    full, low, fine = (DiskReading(f"d{free}", free, 100, failed=False) for free in (1, 10, 50))
    assert verdicts(disk_findings([fine])) == [Verdict.OK]
    assert verdicts(disk_findings([full, low, fine])) == [Verdict.FAIL, Verdict.WARN]
    assert verdicts(disk_findings([DiskReading("d", 0, 0, failed=True)])) == [Verdict.FAIL]
    assert verdicts(disk_findings([DiskReading("d", 0, 0, failed=False)])) == [Verdict.SKIPPED]
    assert verdicts(disk_findings([])) == [Verdict.SKIPPED]


def test_a_proxy_matters_where_no_exception_names_the_servers() -> None:
    assert verdicts(proxy_findings({}, FAR)) == [Verdict.OK]
    proxy = {"https_proxy": "http://p:3128"}
    assert verdicts(proxy_findings(proxy, FAR)) == [Verdict.WARN]
    assert verdicts(proxy_findings({**proxy, "no_proxy": "a, .example"}, FAR)) == [Verdict.OK]
    assert verdicts(proxy_findings({**proxy, "NO_PROXY": "*"}, FAR)) == [Verdict.OK]
    assert verdicts(proxy_findings({**proxy, "no_proxy": "od.example"}, FAR)) == [Verdict.WARN]


def test_limits_and_java_of_this_machine_are_no_reason_to_fail() -> None:
    assert [file_limit_finding(each).verdict for each in (-1, 65_536, 1_024)] == [
        Verdict.OK,
        Verdict.OK,
        Verdict.WARN,
    ]
    assert java_finding("/usr/bin/java", 'openjdk version "21"', None).verdict is Verdict.OK
    assert java_finding(None, None, "none found").verdict is Verdict.WARN


def test_next_steps_stand_below_what_they_are_for() -> None:
    findings = [ok("a", "fine"), warn("long name", "hm", "do it"), skipped("b", "not known")]
    assert findings_text(findings).splitlines() == [
        "ok       a          fine",
        "warn     long name  hm",
        "                    → do it",
        "skipped  b          not known",
    ]
    document = findings_document(findings)
    assert document["verdict"] == "warn"
    assert worst([]) is Verdict.OK


def test_what_never_answers_is_waited_for_so_long_and_no_longer() -> None:
    never = threading.Event()
    # Were it waited for, it would be for ever.
    assert within(never.wait, 0.05) is None
    assert within(lambda: 7, 30.0) == 7
    never.set()


def test_the_servers_of_a_connection_string() -> None:
    assert servers_in("a:1, b,c:3/chroot/x") == ["a:1", "b:2181", "c:3"]


@pytest.mark.parametrize("said", [b"", b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x08\0\0\0\0\0\0\0\0"])
def test_what_is_no_zookeeper_is_told_from_one(said: bytes) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        port = listening.getsockname()[1]

        def answer() -> None:
            connection, _ = listening.accept()
            with connection:
                connection.recv(1024)
                connection.sendall(said)

        thread = threading.Thread(target=answer, daemon=True)
        thread.start()
        with pytest.raises(ZooKeeperProbeError, match=r"is not ZooKeeper|cannot be reached"):
            look_at(f"127.0.0.1:{port}", 30.0)
        thread.join(30.0)


@pytest.mark.parametrize("address", ["nonsense", "h:x", ":1", "h:70000"])
def test_an_address_is_checked_before_anybody_is_asked(address: str) -> None:
    with pytest.raises(ZooKeeperProbeError, match="is not host:port"):
        look_at(address, 0.1)
