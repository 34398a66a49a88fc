"""A condition for one event loop: the counterpart of the `threading.Condition` of the blocking clients."""

import asyncio
from types import TracebackType

from hightide.transport.home import LoopHome


class LoopCondition:
    """A guard of the state that a client and its driver share, which wakes those that wait for a change. Each
    client has one; it may be made anywhere, and is used on one loop.

    Between two awaits nothing else runs, so that nobody ever waits to enter. `with` marks the steps that have
    to be atomic: the blocking twin, which `make blocking` writes from the same text, takes a lock for them.
    Two mistakes would make that twin wait for ever: an await with the lock held, and taking it twice. Each is
    an AssertionError here. Entering it raises ForkedClientError and WrongEventLoopError.
    """

    def __init__(self) -> None:
        self.home = LoopHome()
        self._is_held = False
        self._changed = asyncio.Event()

    def __enter__(self) -> None:
        self.home.enter()
        assert not self._is_held, "it is held already; the blocking twin would wait for its own lock"
        self._is_held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_held = False

    async def wait(self, timeout_s: float | None = None) -> None:
        """Release it until notify_all() or until the time is up; the caller checks its own deadline. Called
        while it is held."""
        assert self._is_held, "only who holds it can wait"
        self._is_held = False
        try:
            async with asyncio.timeout(timeout_s):
                await self._changed.wait()
        except TimeoutError:
            return
        finally:
            self.__enter__()

    def notify_all(self) -> None:
        """Wake all that wait. Called while it is held."""
        assert self._is_held, "only who holds it can notify"
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
