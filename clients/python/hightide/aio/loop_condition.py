"""What a `threading.Condition` is to the blocking clients, for those of one event loop."""

import asyncio
from types import TracebackType


class LoopCondition:
    """Guards what a client and its driver share, and wakes who waits for a change of it; one a client, made
    anywhere and used on one loop.

    Between two awaits nothing else runs, so that nobody ever waits to enter. `with` marks the steps that have
    to be one: the blocking twin, which `make blocking` writes from the same text, takes a lock for them. What
    would make that twin wait for ever, an await with the lock held or taking it twice, is an AssertionError
    here.
    """

    def __init__(self) -> None:
        self._is_held = False
        self._changed = asyncio.Event()

    def __enter__(self) -> None:
        assert not self._is_held, "it is held already; the blocking twin would wait for its own lock"
        self._is_held = True

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._is_held = False

    async def wait(self, timeout_s: float | None = None) -> None:
        """Let go until notify_all() or until the time is up; the caller looks at its own deadline. Called
        with it held."""
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
        """Wake all that wait. Called with it held."""
        assert self._is_held, "only who holds it can notify"
        changed, self._changed = self._changed, asyncio.Event()
        changed.set()
