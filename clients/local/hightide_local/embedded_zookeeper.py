"""A real ZooKeeper from the jars that pyspark ships, on one port, as a child process."""

from pathlib import Path
from types import TracebackType
from typing import Self


class EmbeddedZooKeeper:
    """One ZooKeeper server on 127.0.0.1. Use it as a with-block, or start and stop it."""

    def __init__(self, directory: Path, port: int | None = None, *, tick_time_ms: int = 500) -> None:
        """`port` None takes a free one, and keeps it over restarts."""
        raise NotImplementedError

    @property
    def address(self) -> str:
        """host:port."""
        raise NotImplementedError

    def start(self, timeout_s: float = 30.0) -> None:
        """Start it and wait until it answers; ClusterError with the end of its log where it does not."""
        raise NotImplementedError

    def stop(self) -> None:
        """SIGTERM, and wait."""
        raise NotImplementedError

    def kill(self) -> None:
        """SIGKILL, and wait. `start` brings it back with its data, on the same port."""
        raise NotImplementedError

    def __enter__(self) -> Self:
        """Start."""
        raise NotImplementedError

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop."""
        raise NotImplementedError
