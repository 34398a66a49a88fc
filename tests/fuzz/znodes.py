"""The attack on ZooKeeper: anything may come to stand in any znode, and any may go."""

from __future__ import annotations

from typing import Any, Final

from fuzz.attack import Attack
from fuzz.plan import FUZZED_TOPICS, AttackPlan
from kazoo.client import KazooClient
from kazoo.exceptions import KazooException

_CONTENTS: Final = (
    *(
        b"",
        b"{",
        b"{}",
        b"null",
        b"[]",
        b"0",
        b'"x"',
        b"\xff\xfe",
        b"[" * 5_000,
        b'{"a":' * 2_000,
        b"x" * 100_000,
    ),
    *(
        b'{"host":"\\ud800","port":1}',
        b'{"leader":7,"leader_epoch":2147483647,"isr":[7],"controller_epoch":99}',
    ),
)
_ROOTS_LEFT_OUT: Final = frozenset({"zookeeper"})
_PATHS_MAX: Final = 2_000


class ZnodeAttack(Attack):
    """Replaces, mutates, deletes and adds znodes. Only where nothing is judged but that processes live on."""

    def __init__(self, name: str, plan: AttackPlan) -> None:
        super().__init__(name, f"{plan.seed} {name}")
        self._client: Any = KazooClient(plan.zookeeper, timeout=10)
        self._client.start(30)
        self._paths: list[str] = []

    def strike(self) -> str:
        """One znode."""
        if not self._paths or self.chance.random() < 0.02:
            self._paths = self._walk()
        path = self.chance.choice(self._paths)
        try:
            return self._change(path)
        except KazooException as error:
            return type(error).__name__

    def _walk(self) -> list[str]:
        found: list[str] = []
        todo = ["/"]
        while todo and len(found) < _PATHS_MAX:
            path = todo.pop()
            try:
                children = sorted(self._client.get_children(path))
            except KazooException:
                continue
            below = [f"{path.rstrip('/')}/{each}" for each in children if each not in _ROOTS_LEFT_OUT]
            found += below
            todo += below
        return found

    def _change(self, path: str) -> str:
        drawn = self.chance.random()
        if drawn < 0.4:
            self._client.set(path, self.chance.choice(_CONTENTS))
            return "replaced"
        if drawn < 0.7:
            changed = bytearray(self._client.get(path)[0] or b"{}")
            changed[self.chance.randrange(len(changed))] ^= 1 << self.chance.randrange(8)
            self._client.set(path, bytes(changed))
            return "mutated"
        if drawn < 0.8:
            self._client.delete(path)
            return "deleted"
        names = ("0", "1", "01", "x", "a b", "-1", "99999999999", *FUZZED_TOPICS)
        self._client.create(f"{path}/{self.chance.choice(names)}", self.chance.choice(_CONTENTS))
        return "added"

    def close(self) -> None:
        """End the session."""
        self._client.stop()
        self._client.close()
