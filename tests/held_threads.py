"""An executor whose work is done when a test says so: a disk that takes its time."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import Executor, Future
from functools import partial
from typing import Any

from hightide.batch.errors import BatchError
from hightide_broker.storage import StorageError


class HeldThreads(Executor):
    """Threads that do nothing until they are let."""

    def __init__(self) -> None:
        self._held: list[tuple[Future[Any], Callable[[], Any]]] = []

    def submit(self, work: Callable[..., Any], /, *arguments: Any, **options: Any) -> Future[Any]:
        future: Future[Any] = Future()
        self._held.append((future, partial(work, *arguments, **options)))
        return future

    def __len__(self) -> int:
        return len(self._held)

    def go_on(self) -> None:
        held, self._held = self._held, []
        for future, work in held:
            try:
                future.set_result(work())
            except (StorageError, BatchError) as error:
                future.set_exception(error)
