"""/cluster/coordination: what decides who leads the partitions of a cluster."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Self

from hightide_runtime.znodes.content import Fields, dump


class Coordination(StrEnum):
    """What decides who leads a partition."""

    #: The active controller (V3).
    CONTROLLER = "controller"
    #: The replicas, by a race for the leader znode; there is no controller (V2).
    LEADERS = "leaders"


@dataclass(frozen=True, slots=True)
class CoordinationZnode:
    """/cluster/coordination: `controller` or `leaders`, written once by the first broker or controller."""

    coordination: Coordination

    @staticmethod
    def path() -> str:
        """/cluster/coordination."""
        return "/cluster/coordination"

    def encode(self) -> bytes:
        """The content as JSON."""
        return dump({"coordination": self.coordination.value})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage."""
        fields = Fields("/cluster/coordination", data)
        told = fields.text("coordination")
        if told not in set(Coordination):
            raise fields.garbage(f"coordination is {told[:40]!r}, and neither controller nor leaders")
        return cls(Coordination(told))
