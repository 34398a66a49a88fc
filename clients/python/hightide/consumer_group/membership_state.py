"""The states of a membership in a group, and which may follow which."""

from enum import Enum, auto
from typing import Final


class MembershipState(Enum):
    """The states of the membership."""

    SEEKING = auto()
    """No stream: the coordinator is being looked up, or a pause is kept."""
    REGISTERING = auto()
    """The registration is sent."""
    MEMBER = auto()
    """The coordinator accepted the consumer, and sends it orders."""
    LEAVING = auto()
    """The goodbye was sent."""
    OUTSIDE = auto()
    """Not in the group: the consumer subscribes to nothing, or has left. No stream is wanted."""
    REFUSED = auto()
    """The coordinator refused for a permanent reason."""


VALID_PREDECESSORS: Final[dict[MembershipState, frozenset[MembershipState]]] = {
    MembershipState.SEEKING: frozenset(
        {
            MembershipState.REGISTERING,
            MembershipState.MEMBER,
            MembershipState.LEAVING,
            MembershipState.OUTSIDE,
            MembershipState.REFUSED,
        }
    ),
    MembershipState.REGISTERING: frozenset({MembershipState.SEEKING}),
    MembershipState.MEMBER: frozenset({MembershipState.REGISTERING}),
    MembershipState.LEAVING: frozenset({MembershipState.REGISTERING, MembershipState.MEMBER}),
    MembershipState.OUTSIDE: frozenset(
        {
            MembershipState.SEEKING,
            MembershipState.REGISTERING,
            MembershipState.MEMBER,
            MembershipState.LEAVING,
            MembershipState.REFUSED,
        }
    ),
    MembershipState.REFUSED: frozenset({MembershipState.REGISTERING, MembershipState.MEMBER}),
}
