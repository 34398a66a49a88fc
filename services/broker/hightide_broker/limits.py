"""The limits of one broker's unfinished work (docs/protocol.md, "Nothing is unbounded").

They protect against mistakes and attacks, and are no targets. Limits that an operator may want to change are
in `settings.py`.
"""

from __future__ import annotations

from typing import Final

WAIT_MS_MAX: Final = 30_000
"""The longest time for which a request is parked, whatever it asks for. To wait longer, a client calls
again."""

REQUEST_PARTITIONS_MAX: Final = 10_000
"""Partitions in one client request: as many as a topic may have."""

FETCH_BYTES_MAX: Final = 12 * 1024 * 1024
"""Bytes in one fetch answer beyond its first batch: below the 16 MiB that a gRPC message may have."""

PLAIN_RECORDS_MAX: Final = 10_000
"""Records in one ProduceRecords or FetchRecords."""

PLAIN_RECORDS_DEFAULT: Final = 100
"""Records in one FetchRecords that sets no number."""

PRODUCE_TIMEOUT_MS_DEFAULT: Final = 10_000
"""How long ProduceRecords waits for the in-sync replicas if it sets no time."""


def bounded_wait_ms(asked_ms: int) -> int:
    """The wait that a request gets: not negative, and at most `WAIT_MS_MAX`."""
    return max(0, min(asked_ms, WAIT_MS_MAX))
