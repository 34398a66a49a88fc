"""Asking brokers where partitions begin or end, for those of which a group has committed nothing (§7).

Any live broker tells who leads what, the leaders tell the offsets: a few calls for any number of partitions,
each with a deadline.
"""

from __future__ import annotations

from hightide_coordinator.core.effects import LookUpOffsets
from hightide_coordinator.core.events import Endpoint, OffsetsLookedUp

__all__ = ["StartOffsets"]


class StartOffsets:
    """One for each process."""

    def know_brokers(self, brokers: tuple[Endpoint, ...]) -> None:
        """The live brokers; called with each BrokersChanged, and with what was loaded."""
        raise NotImplementedError

    async def look_up(self, effect: LookUpOffsets) -> OffsetsLookedUp:
        """Carry a LookUpOffsets out, within a few seconds. Raises nothing."""
        raise NotImplementedError

    async def close(self) -> None:
        """Close the channels."""
        raise NotImplementedError
