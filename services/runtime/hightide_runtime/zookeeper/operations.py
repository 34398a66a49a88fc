"""The operations of a multi, and how many it may have."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

#: The size of one multi, if there is a choice.
MAX_MULTI_OPERATIONS = 1000
MAX_MULTI_BYTES = 400_000
#: ZooKeeper drops the connection at about 1 MiB (jute.maxbuffer), without an error code (docs/protocol.md,
#: "Multis are bounded"). One large znode, as that of a topic with very many replicas, may make a multi larger
#: than the others.
MAX_PACKET_BYTES = 1_000_000
_OVERHEAD_BYTES = 64


@dataclass(frozen=True, slots=True)
class Create:
    """Create a znode; NodeExists if it exists, NoNode if its parent does not. `sequential`: ZooKeeper adds
    the next number of the parent to the path."""

    path: str
    data: bytes
    ephemeral: bool = False
    sequential: bool = False

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes in a request."""
        return len(self.path) + len(self.data) + _OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class SetData:
    """Replace a znode's content if it has the version; -1 is any, which is never right for a decision."""

    path: str
    data: bytes
    version: int

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes in a request."""
        return len(self.path) + len(self.data) + _OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Delete:
    """Delete a znode if it has the version; -1 is any."""

    path: str
    version: int

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes in a request."""
        return len(self.path) + _OVERHEAD_BYTES


@dataclass(frozen=True, slots=True)
class Check:
    """Fail the whole multi with BadVersion unless the znode has the version, -1: any. NoNode if it is
    missing. This is the fence."""

    path: str
    version: int

    @property
    def size_bytes(self) -> int:
        """About how many bytes it takes in a request."""
        return len(self.path) + _OVERHEAD_BYTES


Operation: TypeAlias = Create | SetData | Delete | Check


def multis_of(
    groups: Iterable[Sequence[Operation]], fence: Check | Sequence[Operation] | None
) -> list[list[Operation]]:
    """Pack groups of operations into as few multis as the limits allow, each beginning with the fence, which
    may be several operations.

    A group stays whole: it is applied together or not at all. Groups keep their order. Raises ValueError for
    a group that is too large for any multi.
    """
    opening: list[Operation] = [fence] if isinstance(fence, Check) else list(fence or ())
    opening_bytes = sum(operation.size_bytes for operation in opening)
    multis: list[list[Operation]] = []
    current, current_bytes = list(opening), opening_bytes
    for group in groups:
        group_bytes = sum(operation.size_bytes for operation in group)
        if len(opening) + len(group) > MAX_MULTI_OPERATIONS or opening_bytes + group_bytes > MAX_MULTI_BYTES:
            raise ValueError(
                f"{len(group)} operations of {group_bytes} bytes, from {group[0].path} on, do not fit a multi"
            )
        too_many = len(current) + len(group) > MAX_MULTI_OPERATIONS
        if too_many or current_bytes + group_bytes > MAX_MULTI_BYTES:
            multis.append(current)
            current, current_bytes = list(opening), opening_bytes
        current.extend(group)
        current_bytes += group_bytes
    if len(current) > len(opening):
        multis.append(current)
    return multis
