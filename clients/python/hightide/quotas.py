"""Quotas: how much of the cluster each principal may take."""

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one principal. Each process of the cluster counts what the principal does there. None: no
    limit of its own, so that of the default `client/*` holds, if there is one."""

    produce_bytes_per_s: int | None = None
    """Bytes of record batches that it may produce at each broker, a second."""
    fetch_bytes_per_s: int | None = None
    """Bytes of record batches that it may fetch from each broker, a second."""
    mutations_per_s: int | None = None
    """Partitions that it may create or delete, a second."""
    calls_max: int | None = None
    """Calls of records and groups that may be unfinished at each process."""
    connections_max: int | None = None
    """Connections of which calls may be unfinished at each process."""


LIMIT_NAMES: Final = tuple(each.name for each in fields(Quota))
NO_LIMITS: Final = Quota()
