"""What a simulated broker may do to the rest of its world."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from sim.messages import Body, Envelope, Record

if TYPE_CHECKING:
    from sim.broker import SimBroker

Reply = Callable[[Body], None]


class Surroundings(Protocol):
    """What a node may do to the rest of the world."""

    @property
    def now_ms(self) -> int: ...

    def call(self, source: int, target: int, body: Body, then: Reply) -> int: ...

    def answer(self, envelope: Envelope, body: Body) -> None: ...

    def open_session(self) -> int: ...

    def acknowledged(self, broker_id: int, offset: int, record: Record) -> None: ...

    def committed(self, broker: SimBroker) -> None: ...

    def lost(self, broker_id: int, records: list[Record]) -> None: ...

    def diverged(self, broker_id: int, offset: int) -> None: ...

    def log_changed(self) -> None: ...

    def deleting(self, before_offset: int) -> None: ...
