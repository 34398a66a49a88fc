"""Ctrl-C ends a command, whatever the main thread is doing when it comes."""

import signal
import threading
from collections.abc import Iterator
from contextlib import suppress

import pytest
from hightide_cli.command_line.interrupts import interruptible

SOON_S = 10.0


class SilentFinalizer:
    """As a gRPC channel: an exception in its finalizer goes nowhere."""

    def __del__(self) -> None:
        with suppress(BaseException):
            signal.raise_signal(signal.SIGINT)


@pytest.fixture(autouse=True)
def _default_handler() -> Iterator[None]:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def test_an_interrupt_raises_at_once() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        signal.raise_signal(signal.SIGINT)


def test_an_interrupt_that_comes_while_an_object_is_finalized_is_not_lost() -> None:
    with pytest.raises(KeyboardInterrupt), interruptible():
        _finalize_and_wait()


def test_the_handler_is_pythons_own_afterwards() -> None:
    with interruptible():
        assert signal.getsignal(signal.SIGINT) is not signal.default_int_handler
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_background_job_goes_on_ignoring_it() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    with interruptible():
        signal.raise_signal(signal.SIGINT)
        assert signal.getsignal(signal.SIGINT) is signal.SIG_IGN


def test_a_command_on_another_thread_leaves_the_handler_alone() -> None:
    inside: list[object] = []

    def command() -> None:
        with interruptible():
            inside.append(signal.getsignal(signal.SIGINT))

    thread = threading.Thread(target=command)
    thread.start()
    thread.join()
    assert inside == [signal.default_int_handler]


def _finalize_and_wait() -> None:
    SilentFinalizer()
    assert threading.Event().wait(SOON_S), "nothing came"
