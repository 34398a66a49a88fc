"""A single call to a disk that does not return is told from many that take long together."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from hightide_broker.storage.files.files import OsFiles
from hightide_broker.storage.files.hung_calls import LOOK_MAX_S, CallsUnderWay

LOOK_S = 0.2
LIMIT_S = 30.0
LOOKS = int(LIMIT_S / LOOK_S) + 2


class HangingFiles(OsFiles):
    """A sync does not return until it is told to."""

    def __init__(self) -> None:
        self.began = threading.Semaphore(0)
        self.may_end = threading.Semaphore(0)

    def sync(self, fd: int) -> None:
        self.began.release()
        self.may_end.acquire()


@contextmanager
def syncing(files: HangingFiles, calls: CallsUnderWay, times: int = 1) -> Iterator[threading.Thread]:
    """A thread that is in the first of so many syncs."""
    watched = calls.of(files)

    def run() -> None:
        for _ in range(times):
            watched.sync(0)

    thread = threading.Thread(target=run)
    thread.start()
    files.began.acquire()
    try:
        yield thread
    finally:
        files.may_end.release(times)
        thread.join()


def test_a_call_that_does_not_return_is_found_after_the_limit_and_named() -> None:
    calls = CallsUnderWay()
    with syncing(HangingFiles(), calls):
        found = [calls.look(LOOK_S, LIMIT_S) for _ in range(LOOKS)]
    assert not any(found[: int(LIMIT_S / LOOK_S)])
    (hung,) = found[-1]
    assert hung.call == "sync"
    assert LIMIT_S < hung.seen_for_s <= LIMIT_S + 2 * LOOK_S


def test_many_calls_one_after_the_other_are_moving_work_however_long_they_take_together() -> None:
    calls, files = CallsUnderWay(), HangingFiles()
    with syncing(files, calls, times=4):
        for _ in range(3):
            assert not any(calls.look(LOOK_S, LIMIT_S) for _ in range(LOOKS - 10))
            files.may_end.release()
            files.began.acquire()
        files.may_end.acquire(blocking=False)


def test_a_process_that_stood_still_as_a_whole_has_no_hung_disk() -> None:
    calls = CallsUnderWay()
    with syncing(HangingFiles(), calls):
        assert not calls.look(LOOK_S, LIMIT_S)
        assert not calls.look(100 * LIMIT_S, LIMIT_S)
        assert not calls.look(LIMIT_S - 2 * LOOK_MAX_S, LIMIT_S)


def test_a_call_that_has_returned_or_failed_is_not_under_way() -> None:
    calls = CallsUnderWay()
    watched = calls.of(OsFiles())
    try:
        watched.size("/no/such/file")
    except FileNotFoundError:
        found = [calls.look(LOOK_S, 0.0) for _ in range(3)]
    assert not any(found)
