"""One kind of attack, carried out again and again by a thread of its own until the time is over."""

from __future__ import annotations

import threading
import time
from abc import ABC, abstractmethod
from collections import Counter
from random import Random
from typing import Final

FINDINGS_MAX: Final = 20
_SHOWN_BYTES: Final = 1_500


class Attack(ABC):
    """Counts what was done and how it ended, and keeps what must not be. `run` is the body of its thread."""

    def __init__(self, name: str, seed: str) -> None:
        self.name = name
        self.chance = Random(seed)
        self.outcomes: Counter[str] = Counter()
        self.findings: list[str] = []
        self.thread = threading.Thread(target=self.run, name=name, daemon=True)
        self._end_s = 0.0

    def begin(self, seconds: float) -> None:
        """Start the thread."""
        self._end_s = time.monotonic() + seconds
        self.thread.start()

    @abstractmethod
    def strike(self) -> str:
        """Do it once; the result is what to count. Raises whatever is a finding."""

    @abstractmethod
    def close(self) -> None:
        """Let go of what is open. Called by the thread at its end."""

    def run(self) -> None:
        """Strike until the time is over or too much is found."""
        while time.monotonic() < self._end_s and len(self.findings) < FINDINGS_MAX:
            try:
                self.outcomes[self.strike()] += 1
            except Finding as finding:
                self.findings.append(f"{self.name}: {finding}")
                self.outcomes["FINDING"] += 1
        self.close()


class Finding(Exception):
    """Something that no attack may bring about."""


def shown(data: bytes) -> str:
    """Bytes as a finding tells them: whole where they are few, so that they can be sent again."""
    return data.hex() if len(data) <= _SHOWN_BYTES else f"{data[:_SHOWN_BYTES].hex()}… ({len(data)} bytes)"
