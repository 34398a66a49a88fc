"""The condition that guards a blocking client: the counterpart of `hightide.aio.loop_condition`."""

import threading

from hightide.transport.home import ProcessHome


class ThreadCondition(threading.Condition):
    """A lock around the state that a client and its thread share, which wakes those that wait for a change.
    It may be made anywhere, and is used in one process. `lock` is its lock alone: only for who knows already
    that it is in that process. Entering it raises ForkedClientError."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.home = ProcessHome()
        super().__init__(self.lock)

    def __enter__(self) -> bool:
        self.home.enter()
        return super().__enter__()
