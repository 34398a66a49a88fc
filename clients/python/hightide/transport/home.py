"""The process, and with asyncio the event loop, that a client belongs to: those that used it first.

Threads and connections of a client do not survive a fork(), and what waits on one event loop is not woken by
another. Without a check, a client that is used elsewhere would wait for ever.
"""

import asyncio
import os

from hightide.errors import ForkedClientError, WrongEventLoopError


class ProcessHome:
    """The process that a client belongs to."""

    def __init__(self) -> None:
        self._pid: int | None = None

    def enter(self) -> None:
        """Note the process of the first use. Called whenever the client is used, before any lock is taken:
        another thread may have held the lock at the moment of the fork. Raises ForkedClientError."""
        pid = os.getpid()
        if self._pid is None:
            self._pid = pid
        elif self._pid != pid:
            raise ForkedClientError(f"process {self._pid} used this client before process {pid} was forked")

    @property
    def place(self) -> object:
        """Where in its process the client is used: None is for anywhere."""
        return None

    @property
    def is_elsewhere(self) -> bool:
        """Whether the client belongs to another process: nothing of it can be closed here."""
        return self._pid is not None and self._pid != os.getpid()


class LoopHome(ProcessHome):
    """The process and the event loop that a client of asyncio belongs to."""

    def __init__(self) -> None:
        super().__init__()
        self._loop: asyncio.AbstractEventLoop | None = None

    @property
    def place(self) -> asyncio.AbstractEventLoop | None:
        """The event loop."""
        return self._loop

    def enter(self) -> None:
        """Note the process and the event loop of the first use. What only looks at the client may do so
        without a loop. Raises ForkedClientError, WrongEventLoopError."""
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            super().enter()
            return
        if loop is self._loop:
            # send() comes here for each record. A loop does not go on in a child process.
            return
        super().enter()
        if self._loop is None:
            self._loop = loop
        elif self._loop is not loop:
            ended = ", which has ended," if self._loop.is_closed() else ""
            raise WrongEventLoopError(f"another event loop{ended} used this client first")
