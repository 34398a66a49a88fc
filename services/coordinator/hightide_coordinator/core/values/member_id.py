"""Member ids: the secret of a member, and when it got it."""

from __future__ import annotations

import re
from typing import Final

__all__ = ["age_of", "made_member_id"]

_SHAPE: Final = re.compile(r"([0-9]{1,10})-([0-9]{1,19})-[^-]+")


def made_member_id(coordinator_epoch: int, registration: int, secret: str) -> str:
    """The id of a new member. Called by the coordinator of this epoch, which counts its registrations: ids of
    the same shard have the order in which they were made, over all coordinators."""
    return f"{coordinator_epoch}-{registration}-{secret}"


def age_of(member_id: str) -> tuple[int, int] | None:
    """The place of an id in the order in which they were made, the newest highest; None for one that no
    coordinator of this version made."""
    shape = _SHAPE.fullmatch(member_id)
    return None if shape is None else (int(shape[1]), int(shape[2]))
