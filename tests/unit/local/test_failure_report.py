"""What a test that failed shows of the clusters' processes."""

import json
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hightide_local import failure_report
from hightide_runtime.telemetry import span_kinds

FAILS = """
import os, sys
from pathlib import Path
from hightide_local.processes.managed_process import ManagedProcess

LINES = '''2026-01-01T00:00:00.000Z INFO broker-1 hightide_broker.main: serves
2026-01-01T00:00:01.000Z WARNING broker-1 hightide_broker.main: {warning}
'''

def run(name, warning):
    log = Path(__file__).with_name("broker.log")
    command = [sys.executable, "-c", f"print({LINES.format(warning=warning)!r})"]
    process = ManagedProcess(name, command, os.environ, log)
    process.start(None)
    while "WARNING" + " broker-1 hightide_broker.main: " + warning not in log.read_text():
        pass

def test_that_passes():
    run("broker-1", "of before")

def test_that_fails():
    run("broker-1", "the disk is slow")
    assert False
"""


def log(path: Path, *lines: str) -> None:
    with path.open("a") as file:
        file.writelines(f"{line}\n" for line in lines)


def said(level: str, message: str) -> str:
    return f"2026-11-22T11:34:45.973Z {level} broker-1 hightide_broker.replicas: {message}"


def test_a_test_that_fails_shows_what_its_processes_warned_of_meanwhile(tmp_path: Path) -> None:
    (tmp_path / "test_it.py").write_text(FAILS)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rN", "test_it.py"]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert "1 failed, 1 passed" in run.stdout, run.stdout
    shown = run.stdout.partition("hightide cluster")[2]
    assert f"warnings of broker-1 ({tmp_path / 'broker.log'}):" in shown
    assert "hightide_broker.main: the disk is slow" in shown
    assert "of before" not in shown
    assert "INFO" not in shown


def test_of_a_log_the_lines_since_the_beginning_count(tmp_path: Path) -> None:
    path = tmp_path / "broker-1.log"
    failure_report.note_log("broker-1", path)
    log(path, said("WARNING", "of before"))
    began = failure_report.now()
    assert failure_report.report_since(began) == ""
    log(path, said("ERROR", "of now"))
    assert failure_report.report_since(began).splitlines() == [
        f"warnings of broker-1 ({path}):",
        "  " + said("ERROR", "of now"),
    ]


def test_a_log_that_came_later_is_told_from_its_beginning(tmp_path: Path) -> None:
    began = failure_report.now()
    path = tmp_path / "broker-1.log"
    failure_report.note_log("broker-1", path)
    log(path, said("CRITICAL", "the disk is full"))
    assert said("CRITICAL", "the disk is full") in failure_report.report_since(began)


def test_a_traceback_belongs_to_its_line(tmp_path: Path) -> None:
    path = tmp_path / "broker-1.log"
    failure_report.note_log("broker-1", path)
    began = failure_report.now()
    log(
        path, said("INFO", "asked"), "  Traceback of what is expected", said("ERROR", "broke"), "  OSError: 5"
    )
    assert failure_report.report_since(began).splitlines()[1:] == [
        "  " + said("ERROR", "broke"),
        "    OSError: 5",
    ]


def test_what_an_interpreter_says_as_it_dies_is_shown(tmp_path: Path) -> None:
    path = tmp_path / "broker-1.log"
    failure_report.note_log("broker-1", path)
    began = failure_report.now()
    log(path, said("INFO", "serves"), "Fatal Python error: Segmentation fault", "  File main.py, line 1")
    assert "Fatal Python error" in failure_report.report_since(began)
    assert "line 1" in failure_report.report_since(began)


def test_of_zookeeper_warnings_are_shown_without_the_frames(tmp_path: Path) -> None:
    path = tmp_path / "zookeeper.log"
    failure_report.note_log("zookeeper", path)
    began = failure_report.now()
    log(
        path,
        "2026-11-22T11:34:45.973874557Z main DEBUG preRegister called. Server=com.sun.jmx",
        "2026-11-22T11:34:47.299652708Z NIOWorkerThread-2 WARN Close of session 0x0",
        "java.io.IOException: ZooKeeperServer not running",
        "\tat org.apache.zookeeper.server.NIOServerCnxn.readLength(NIOServerCnxn.java:572)",
        "",
    )
    assert failure_report.report_since(began).splitlines()[1:] == [
        "  2026-11-22T11:34:47.299652708Z NIOWorkerThread-2 WARN Close of session 0x0",
        "  java.io.IOException: ZooKeeperServer not running",
    ]


def test_a_process_that_warns_without_end_does_not_hide_the_others(tmp_path: Path) -> None:
    began = failure_report.now()
    for number in range(1, 4):
        path = tmp_path / f"broker-{number}.log"
        failure_report.note_log(f"broker-{number}", path)
        log(path, *(said("WARNING", f"number {each}") for each in range(1000)))
    lines = failure_report.report_since(began).splitlines()
    assert len(lines) == 3 * (1 + failure_report.LINES_PER_PROCESS_MAX)
    assert "the last 20 of 1000 lines" in lines[0]
    assert lines[-1].endswith("number 999")


def test_the_report_is_bounded_however_many_processes_warn(tmp_path: Path) -> None:
    began = failure_report.now()
    for number in range(30):
        path = tmp_path / f"broker-{number}.log"
        failure_report.note_log(f"broker-{number}", path)
        log(path, *(said("WARNING", "x" * 10_000) for _ in range(30)))
    lines = failure_report.report_since(began).splitlines()
    assert len(lines) == failure_report.LINES_MAX + 1
    assert max(map(len, lines)) < 500


def test_a_failover_since_the_beginning_is_told_in_a_sentence(tmp_path: Path) -> None:
    failure_report.note_traces(tmp_path)
    began = failure_report.now()

    def span(trace_id: str, name: str, parent_id: str, start_us: int, took_us: int) -> str:
        times = {"start_us": start_us, "end_us": start_us + took_us}
        ids = {"trace_id": trace_id, "span_id": f"{trace_id}-{name}", "parent_id": parent_id}
        who = {"name": name, "service": "controller", "instance": "1"}
        return json.dumps(ids | who | times | {"attributes": {"reason": "session_lost"}})

    now_us = time.time_ns() // 1000
    before_us = began.time_us - 60_000_000
    for trace_id, start_us in (("of-before", before_us), ("of-now", now_us)):
        root = span(trace_id, span_kinds.FAILOVER, "", start_us, 30_000)
        step = span(trace_id, span_kinds.LEADERSHIP_CHANGE, f"{trace_id}-failover", start_us, 20_000)
        log(tmp_path / "controller-1.jsonl", root, step)
    report = failure_report.report_since(began)
    assert "failover of-now (session_lost): unavailable at least 20 ms" in report
    assert "of-before" not in report


@pytest.mark.parametrize("gone", ["log", "directory"])
def test_a_log_that_is_gone_says_nothing(tmp_path: Path, gone: str) -> None:
    path = tmp_path / gone / "broker-1.log"
    path.parent.mkdir()
    failure_report.note_log("broker-1", path)
    failure_report.note_traces(path.parent)
    log(path, said("ERROR", "broke"))
    began = failure_report.now()
    path.unlink()
    if gone == "directory":
        path.parent.rmdir()
    assert failure_report.report_since(began) == ""
