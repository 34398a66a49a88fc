"""Ctrl-C ends a command, also where Python swallows what is raised."""

from __future__ import annotations

import _thread
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Final

_FINALIZER: Final = "__del__"
_AGAIN_AFTER_S: Final = 0.02


@contextmanager
def interruptible() -> Iterator[None]:
    """In this block SIGINT raises KeyboardInterrupt on the main thread; `main` runs each command in one.

    Python's own handler does so too, but an exception in a finalizer goes nowhere (the reference of Python,
    `object.__del__`), and that of a gRPC channel does not even say so: a command that was just closing a
    connection ran on to its end. Here the signal comes again when the finalizer has ended.

    Signals that are ignored stay so (a background job of a script), and so does the handler of somebody else.
    """
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler or not _on_main_thread():
        yield
        return
    signal.signal(signal.SIGINT, _interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _on_main_thread() -> bool:
    return threading.current_thread() is threading.main_thread()


def _interrupt(_number: int, frame: FrameType | None) -> None:
    if not _is_in_finalizer(frame):
        raise KeyboardInterrupt
    again = threading.Timer(_AGAIN_AFTER_S, _thread.interrupt_main)
    again.daemon = True
    again.start()


def _is_in_finalizer(frame: FrameType | None) -> bool:
    while frame is not None:
        if frame.f_code.co_name == _FINALIZER:
            return True
        frame = frame.f_back
    return False
