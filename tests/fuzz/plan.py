"""What an attack is told: where the ports are, with which certificate it may come, and for how long."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Final

RPC, SCRAPE = "rpc", "scrape"

FUZZED_TOPICS: Final = tuple(f"fuzz-{number}" for number in range(4))
"""Topics that an attack may write to, move and delete. What is judged has another name."""
FUZZED_GROUPS: Final = tuple(f"fuzz-group-{number}" for number in range(4))
BATCH_TOPIC: Final = "batches"
"""The topic that gets batches that lie, and that all readers then read. Its id is told to no other attack."""


@dataclass(frozen=True, slots=True)
class Port:
    """A port of a process, named like it: `broker-1`. Kind: RPC, or SCRAPE for Prometheus."""

    process: str
    host: str
    number: int
    kind: str = RPC
    is_external: bool = False

    @property
    def address(self) -> str:
        """host:port."""
        return f"{self.host}:{self.number}"


@dataclass(frozen=True, slots=True)
class AttackPlan:
    """The plan of one season, which travels to the process that attacks as one line of JSON.

    `tls` are the files of the attackers' CA, certificate and key; empty for plaintext. `may_command`: they
    also send what only processes of the cluster may. `zookeeper`: they also write there, unless it is empty.
    With either of the two, the records are theirs to lose.
    """

    seed: int
    seconds: float
    bootstrap: str
    ports: tuple[Port, ...]
    tls: tuple[str, ...]
    may_command: bool
    zookeeper: str

    def encode(self) -> str:
        """The line."""
        return json.dumps(asdict(self))

    @classmethod
    def decode(cls, line: str) -> AttackPlan:
        """The plan of a line."""
        fields = json.loads(line)
        ports = tuple(Port(**each) for each in fields.pop("ports"))
        return cls(**{**fields, "ports": ports, "tls": tuple(fields["tls"])})
