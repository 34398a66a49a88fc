"""How a service process runs: from its main to its exit code."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import NoReturn

import uvloop

from hightide_runtime.errors import StartupError
from hightide_runtime.zookeeper_errors import InconsistentClusterId, ZooKeeperUnreachable


def run_service(program: str, service: Callable[[asyncio.Event], Awaitable[None]]) -> int:
    """Run `service(stopping)` on uvloop until it returns; the exit code for the main to return.

    SIGTERM and SIGINT set `stopping`: the service then stops gracefully and returns. A second signal ends the
    process at once. StartupError, ZooKeeperUnreachable and InconsistentClusterId are printed as one line,
    without a traceback.
    """

    async def run() -> None:
        stopping = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, _stop, loop, stopping)
        await service(stopping)

    try:
        uvloop.run(run())
    except (StartupError, ZooKeeperUnreachable, InconsistentClusterId) as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 1
    return 0


def end_process(code: int) -> NoReturn:
    """End the process, without the interpreter's own farewell. Mains call it last; all is closed that can be.

    gRPC's threads cannot be, and one that wakes up while the interpreter takes their library apart ends the
    process by SIGSEGV: seen once in some thousands of stops, and then a clean stop looks like a crash.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _stop(loop: asyncio.AbstractEventLoop, stopping: asyncio.Event) -> None:
    stopping.set()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)
