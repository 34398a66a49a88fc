"""The logs that may have lost their ends, as brokers write them and controllers read them."""

from __future__ import annotations

from typing import NamedTuple


class RecoveredLog(NamedTuple):
    """How much a broker still has of a partition after it may have lost the end of its log."""

    broker_id: int
    leader_epoch: int
    """The latest leader epoch in its log; -1 if it has no record."""
    log_end_offset: int
