"""What the watch over an attacked cluster finds, and what it does not take for a finding."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator

import pytest
from fuzz.run import report
from fuzz.season import Ground, SeasonResult
from fuzz.watch import ProcessUsage, ProcessWatch, Usage, mistakes_in
from hightide_local.histories.waiting import wait_until

EVENT = "2026-11-24T06:01:47.297Z {} broker-1 hightide.x: {}"


def test_a_traceback_is_found_with_the_event_that_it_belongs_to() -> None:
    log = "\n".join(
        [
            EVENT.format("INFO", "it is well"),
            EVENT.format("ERROR", "/x failed"),
            "  Traceback (most recent call last):",
            '    File "x.py", line 1, in f',
            "  KeyError: 3",
            EVENT.format("INFO", "it is well again"),
        ]
    )
    (found,) = mistakes_in(log)
    assert "/x failed" in found
    assert "KeyError: 3" in found
    assert "well" not in found


def test_so_is_what_python_writes_when_it_ends() -> None:
    (found,) = mistakes_in("Traceback (most recent call last):\n  File x\nKeyError: 3")
    assert found.endswith("KeyError: 3")


def test_a_sentence_about_what_somebody_else_did_is_no_finding() -> None:
    log = [
        EVENT.format("ERROR", "znode /controller_epoch: not JSON; no controller can be elected"),
        "E1124 05:58:30.079692   24974 hpack_parser.cc:1006] Error parsing 'grpc-timeout' metadata",
        EVENT.format("WARNING", "reading ZooKeeper is tried again"),
    ]
    assert list(mistakes_in("\n".join(log))) == []


@pytest.fixture
def sleeper() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_process_that_ends_is_found(sleeper: subprocess.Popen[bytes]) -> None:
    watch = ProcessWatch({"broker-1": sleeper.pid})
    with watch:
        sleeper.kill()
        sleeper.wait()
        wait_until("it is seen", lambda: watch.gone, 30)
    assert list(watch.findings()) == ["broker-1 has ended"]


def test_one_that_lives_and_takes_nothing_is_not(sleeper: subprocess.Popen[bytes]) -> None:
    with ProcessWatch({"broker-1": sleeper.pid}) as watch:
        pass
    assert list(watch.findings()) == []
    assert watch.usage["broker-1"].threads.first == 1


@pytest.mark.parametrize(
    ("rss_mib", "threads", "descriptors", "found"),
    [
        ((70, 1_300, 80), (15, 15, 15), (30, 30, 30), "broker-1 grew from 70 to 1300 MiB"),
        ((70, 80, 80), (15, 200, 15), (30, 30, 30), "broker-1 had 200 threads, and 15 before"),
        ((70, 80, 80), (15, 15, 15), (30, 900, 400), "broker-1 keeps 400 files and connections open"),
    ],
)
def test_one_that_takes_too_much_is_found(
    rss_mib: tuple[int, int, int],
    threads: tuple[int, int, int],
    descriptors: tuple[int, int, int],
    found: str,
) -> None:
    watch = ProcessWatch({"broker-1": os.getpid()})
    watch.usage["broker-1"] = ProcessUsage(Usage(*rss_mib), Usage(*threads), Usage(*descriptors))
    (told,) = watch.findings()
    assert told.startswith(found)


def test_the_table_tells_what_was_done_and_found() -> None:
    result = SeasonResult(Ground.PLAINTEXT, {"calls": Counter(OK=7, NOT_FOUND=2)}, acknowledged=12)
    result.usage = {"broker-1": ProcessUsage(Usage(70, 90, 80), Usage(15, 20, 16), Usage(30, 50, 31))}
    result.waits_ms = {"p50": 3.4}
    result.findings = ["x"]
    text = "\n".join(report([result]))
    assert "calls               9  OK 7, NOT_FOUND 2" in text
    assert "12 records judged; a client waits p50 3 ms" in text
    assert "70 / 90 / 80   15 / 20 / 16     30 / 50 / 31" in text
    assert text.endswith("1 findings")
