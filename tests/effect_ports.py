"""The ports of a replica shell in tests that are about some of them only."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from hightide_broker.replica.shell import EffectPorts, ReplicaShell


class Unexpected:
    """The port of a test in which nobody uses it."""

    def __init__(self, port: str) -> None:
        self._port = port

    def __getattr__(self, name: str) -> Any:
        """Fail: the test did not expect this effect."""
        raise AssertionError(f"the shell performs `{self._port}.{name}`, and this test gives it no such port")


def perform_with(shell: ReplicaShell, **ports: Any) -> None:
    """Give the shell these ports, by their names; the others stay, or are unexpected."""
    before = getattr(shell, "ports", None)
    others = {
        field.name: Unexpected(field.name) if before is None else getattr(before, field.name)
        for field in fields(EffectPorts)
    }
    shell.perform_with(EffectPorts(**{**others, **ports}))
