"""Pauses of a replica's fetching, so that its leader does not count it as in sync: while it is damaged, and
while it waits for its disk."""

from __future__ import annotations

from typing import Protocol

from hightide_broker.replica.held_replicas import HostedReplica

__all__ = ["FetchPausePort"]


class FetchPausePort(Protocol):
    """Fetches into replicas (`fetchers.Fetchers`)."""

    def hold(self, replica: HostedReplica) -> None:
        """Fetch nothing into it."""
        ...

    def resume(self, replica: HostedReplica) -> None:
        """Continue to fetch, if it follows."""
        ...
