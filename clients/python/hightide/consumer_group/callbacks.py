"""The user's callbacks for partitions that are assigned or revoked."""

from collections.abc import Callable
from dataclasses import dataclass

from hightide.consumer_group.ownership import AssignmentEvent, OwnershipChange
from hightide.records import TopicPartition

#: Called with the partitions, sorted; on the side of the user, inside of poll(), an iteration or close().
AssignmentCallback = Callable[[tuple[TopicPartition, ...]], object]


@dataclass(frozen=True, slots=True)
class GroupCallbacks:
    """The callbacks of `Consumer`. If there is no `on_lost`, `on_revoke` is called for lost partitions."""

    on_assign: AssignmentCallback | None = None
    on_revoke: AssignmentCallback | None = None
    on_lost: AssignmentCallback | None = None

    def replaced_by(self, later: "GroupCallbacks") -> "GroupCallbacks":
        """The callbacks after a subscription that brought some of its own."""
        return GroupCallbacks(
            later.on_assign or self.on_assign,
            later.on_revoke or self.on_revoke,
            later.on_lost or self.on_lost,
        )

    def of(self, event: AssignmentEvent) -> AssignmentCallback | None:
        """The callback for an event; None: there is none."""
        match event.change:
            case OwnershipChange.ASSIGNED:
                return self.on_assign
            case OwnershipChange.REVOKED:
                return self.on_revoke
            case OwnershipChange.LOST:
                return self.on_lost or self.on_revoke
