"""The znodes of a group in ZooKeeper and their versions, on which the next write depends.

The cache is a hint (docs/protocol.md, "The cache is a hint"): if it is wrong, the write is refused, and the
group is read again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

from hightide_runtime.zookeeper.session import Check, Create, Delete, Operation, SetData

__all__ = ["GroupLayout"]


@dataclass(slots=True)
class GroupLayout:
    """The znodes of one group, as they were last read or written. Empty if there are none."""

    path: str
    """The path of the group's own znode."""
    versions: dict[str, int] = field(default_factory=dict)
    """The zkVersion of each znode by path; -1 for parents, which have no content."""
    content: bytes = b""
    """The content of the group's own znode."""
    children: Counter[str] = field(default_factory=Counter)
    """The number of known children of each path."""

    def add(self, path: str, version: int) -> None:
        """Take note that the znode exists in this version."""
        if path not in self.versions:
            self.children[path.rpartition("/")[0]] += 1
        self.versions[path] = version

    def remove(self, path: str) -> None:
        """Take note that the znode was deleted."""
        if self.versions.pop(path, None) is not None:
            parent = path.rpartition("/")[0]
            self.children[parent] -= 1
            if not self.children[parent]:
                del self.children[parent]

    def applied(self, operations: Sequence[Operation], versions: Iterable[int]) -> None:
        """Take note that a multi has committed, with these versions after its operations."""
        for operation, version in zip(operations, versions, strict=True):
            match operation:
                case Create() | SetData():
                    self.add(operation.path, version)
                    if operation.path == self.path:
                        self.content = operation.data
                case Delete():
                    self.remove(operation.path)
                case Check():
                    pass
