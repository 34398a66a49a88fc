# Generated from aio/running.py by `make blocking`: change that one, not this.
"""Runs operations that take several calls, by threads; see `hightide.cluster.operations`."""

import time
from typing import TypeVar

from hightide.cluster.operations import Operation, Pause
from hightide.errors import HightideError
from hightide.transport.transport import Transport

T = TypeVar("T")


def run(operation: Operation[T], transport: Transport) -> T:
    """Run an operation on this thread. Raises the operation's errors, and those of a client that is used
    elsewhere (`hightide.transport.home`)."""
    transport.home.enter()
    try:
        step = next(operation)
        while True:
            if isinstance(step, Pause):
                time.sleep(step.pause_ms / 1000)
                step = operation.send(None)
                continue
            try:
                answer = transport.run(step)
            except HightideError as error:
                step = operation.throw(error)
            else:
                step = operation.send(answer)
    except StopIteration as ended:
        result: T = ended.value
        return result
