"""Runs operations that take several calls, by asyncio; see `hightide.cluster.operations`."""

import asyncio
from typing import TypeVar

from hightide.cluster.operations import Operation, Pause
from hightide.errors import HightideError
from hightide.transport.transport import AioTransport

T = TypeVar("T")


async def run(operation: Operation[T], transport: AioTransport) -> T:
    """Run an operation on this loop. Raises the operation's errors, and those of a client that is used
    elsewhere (`hightide.transport.home`)."""
    transport.home.enter()
    try:
        step = next(operation)
        while True:
            if isinstance(step, Pause):
                await asyncio.sleep(step.pause_ms / 1000)
                step = operation.send(None)
                continue
            try:
                answer = await transport.run(step)
            except HightideError as error:
                step = operation.throw(error)
            else:
                step = operation.send(answer)
    except StopIteration as ended:
        result: T = ended.value
        return result
