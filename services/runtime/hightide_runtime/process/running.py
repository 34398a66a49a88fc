"""Running a service process, from its main to its exit code."""

import asyncio
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import Final, NoReturn

import uvloop

from hightide_runtime.errors import StartupError
from hightide_runtime.zookeeper.errors import InconsistentClusterId, ZooKeeperUnreachable

log = logging.getLogger(__name__)


class StopSignal(asyncio.Event):
    """Set when SIGTERM or SIGINT tells the process to stop. `again` is set by a second signal, from an
    operator who does not want to wait, and should not have to kill the process."""

    def __init__(self) -> None:
        super().__init__()
        self.again = asyncio.Event()

    def told(self, number: int) -> None:
        """Handle a signal. After the second one, the next one ends the process at once, as usual."""
        name = signal.Signals(number).name
        if not self.is_set():
            log.info("%s: stops in good order", name)
            self.set()
            return
        log.warning("%s again: stops without waiting for others; once more, and it is killed", name)
        self.again.set()
        for each in _STOP_SIGNALS:
            asyncio.get_running_loop().remove_signal_handler(each)
            signal.signal(each, signal.SIG_DFL)


_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


def run_service(program: str, service: Callable[[StopSignal], Awaitable[None]]) -> int:
    """Run `service(stopping)` on uvloop until it returns; the exit code for the main to return.

    SIGTERM and SIGINT set `stopping`: the service then stops gracefully and returns. A second signal sets
    `stopping.again`, the third one kills. StartupError, ZooKeeperUnreachable and InconsistentClusterId are
    printed as one line, without a traceback.
    """

    async def run() -> None:
        stopping = StopSignal()
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, stopping.told, number)
        await service(stopping)

    try:
        uvloop.run(run())
    except (StartupError, ZooKeeperUnreachable, InconsistentClusterId) as error:
        print(f"{program}: error: {error}", file=sys.stderr)
        return 1
    return 0


def end_process(code: int) -> NoReturn:
    """End the process without the interpreter's cleanup. Mains call it last, when everything is closed that
    can be.

    gRPC's threads cannot be closed. If one wakes up while the interpreter unloads their library, the process
    ends by SIGSEGV. This was seen once in some thousands of stops, and a clean stop then looks like a crash.
    """
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)
