"""The network of a simulated cluster: messages that arrive when somebody says so, are lost, late or doubled.

Rules of this file: it knows nodes by their numbers, whether they live, are paused, and take messages. What
the messages say is the business of the world that is built on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from sim.messages import REQUESTS, ZOOKEEPER, CallFailed, Envelope
from sim.story import Story


class Node(Protocol):
    """A process of the cluster."""

    alive: bool
    paused: bool

    def receive(self, envelope: Envelope) -> None: ...


@dataclass(frozen=True)
class _Call:
    """A request whose answer is awaited."""

    source: int
    life: int
    target: int
    then: Callable[[Any], None]


class Network(ABC):
    """Every message under way. Public methods are the orders."""

    nodes: Mapping[int, Node]
    """All processes but ZooKeeper."""

    def __init__(self, node_ids: tuple[int, ...]) -> None:
        self.now_ms = 0
        self.pending: list[Envelope] = []
        self.late: list[Envelope] = []
        """Messages that arrive only once somebody says so (`let_arrive`)."""
        self.story = Story()
        self.cut_links: set[tuple[int, int]] = set()
        self._calls: dict[int, _Call] = {}
        self._next_call = 1
        self._lives: dict[int, int] = dict.fromkeys(node_ids, 0)

    def is_request(self, envelope: Envelope) -> bool:
        """Whether it asks for something, and is not the answer."""
        return isinstance(envelope.body, REQUESTS)

    @abstractmethod
    def at_zookeeper(self, envelope: Envelope) -> None:
        """A request reaches ZooKeeper."""

    @abstractmethod
    def check(self) -> None:
        """Let every checker look."""

    def takes(self, envelope: Envelope) -> bool:
        """Whether its receiver is there for it."""
        return self.nodes[envelope.target].alive

    @abstractmethod
    def touched(self, node_id: int) -> None:
        """Something reached a node: called before the checkers look."""

    # --- what nodes may do -----------------------------------------------------------------------

    def call(self, source: int, target: int, body: Any, then: Callable[[Any], None]) -> int:
        """Send a request; `then` gets the answer, or CallFailed, once, in this life of the caller."""
        call = self._next_call
        self._next_call += 1
        self._calls[call] = _Call(source, self._lives[source], target, then)
        self.pending.append(Envelope(source, target, call, body))
        return call

    def answer(self, envelope: Envelope, body: Any) -> None:
        """Answer a request."""
        self.pending.append(Envelope(envelope.target, envelope.source, envelope.call, body))

    # --- orders ----------------------------------------------------------------------------------

    def is_open(self, envelope: Envelope) -> bool:
        """Whether the message can arrive now: its link is whole and its receiver is not paused."""
        node = self.nodes.get(envelope.target)
        paused = node is not None and node.paused
        return not paused and (envelope.source, envelope.target) not in self.cut_links

    def first_in_line(self, envelope: Envelope) -> Envelope:
        """What ZooKeeper and a client say to one another arrives in the order in which it was said."""
        if ZOOKEEPER not in (envelope.source, envelope.target):
            return envelope
        return next(e for e in self.pending if (e.source, e.target) == (envelope.source, envelope.target))

    def deliver(self, envelope: Envelope) -> None:
        """The message arrives. One for a process that is gone comes back as a failure."""
        self.story.tell("deliver", envelope)
        self.pending.remove(envelope)
        if envelope.target == ZOOKEEPER:
            self.at_zookeeper(envelope)
        elif envelope.call and not self.is_request(envelope):
            self._finish(envelope)
        elif self.takes(envelope):
            self.nodes[envelope.target].receive(envelope)
        elif envelope.call:
            self.pending.append(Envelope(envelope.target, envelope.source, envelope.call, CallFailed()))
        self.touched(envelope.target)
        self.check()

    def _finish(self, envelope: Envelope) -> None:
        found = self._calls.pop(envelope.call, None)
        if found is None:
            return  # The answer to a request that arrived twice.
        if self.nodes[found.source].alive and self._lives[found.source] == found.life:
            found.then(envelope.body)

    def lose(self, envelope: Envelope) -> None:
        """The message is lost; who waits for it learns that the call failed. Notices are never lost."""
        assert envelope.call
        assert not isinstance(envelope.body, CallFailed)
        self.story.tell("lose", envelope)
        self.pending.remove(envelope)
        caller = self._calls.get(envelope.call)
        if caller is not None:
            self.pending.append(Envelope(envelope.target, caller.source, envelope.call, CallFailed()))

    def delay(self, envelope: Envelope, give_up: bool) -> None:
        """The message comes very late. Where `give_up`, who waits for it learns that the call failed."""
        self.story.tell("delay", envelope, f"give_up={give_up}")
        self.pending.remove(envelope)
        self.late.append(envelope)
        caller = self._calls.get(envelope.call)
        if give_up and caller is not None:
            self.pending.append(Envelope(caller.target, caller.source, envelope.call, CallFailed()))

    def let_arrive(self, envelope: Envelope) -> None:
        """A delayed message is under way again."""
        self.story.tell("let arrive", envelope)
        self.late.remove(envelope)
        self.pending.append(envelope)

    def duplicate(self, envelope: Envelope) -> None:
        """The request arrives twice."""
        assert self.is_request(envelope)
        assert envelope.target != ZOOKEEPER
        self.story.tell("duplicate", envelope)
        self.pending.append(envelope)

    def cut(self, a: int, b: int) -> None:
        """Messages between two nodes are held back, both ways."""
        self.story.append(f"cut {a} {b}")
        self.cut_links |= {(a, b), (b, a)}

    def mend_link(self, a: int, b: int) -> None:
        """What was held back may arrive."""
        self.story.append(f"mend {a} {b}")
        self.cut_links -= {(a, b), (b, a)}

    def hold(self, source: int, target: int) -> None:
        """Messages one way are held back."""
        self.story.append(f"hold {source}->{target}")
        self.cut_links.add((source, target))

    def release(self, source: int, target: int) -> None:
        """What was held back one way may arrive."""
        self.story.append(f"release {source}->{target}")
        self.cut_links.discard((source, target))

    def settle_until(self, reached: Callable[[], bool], limit: int = 3_000) -> None:
        """Deliver in order until something is so."""
        for _ in range(limit):
            if reached():
                return
            self.deliver(next(e for e in self.pending if self.is_open(e)))
        raise AssertionError("the cluster does not get there")

    def settle(self, limit: int = 3_000) -> None:
        """Deliver in order until nothing is under way that can arrive."""
        for _ in range(limit):
            envelope = next((e for e in self.pending if self.is_open(e)), None)
            if envelope is None:
                return
            self.deliver(envelope)
        raise AssertionError("the cluster does not come to rest")

    def time_out(self, node_id: int) -> None:
        """The node gives up on every request that it has at another node; late answers are ignored."""
        self.story.append(f"time out {node_id}")
        for number, call in self._calls.items():
            if call.source == node_id and call.target != ZOOKEEPER:
                self.pending.append(Envelope(call.target, node_id, number, CallFailed()))

    def pause(self, node_id: int) -> None:
        """The process stands still: nothing arrives, no timer runs."""
        self.story.append(f"pause {node_id}")
        self.nodes[node_id].paused = True

    def resume(self, node_id: int) -> None:
        """It goes on as if nothing had been."""
        self.story.append(f"resume {node_id}")
        self.nodes[node_id].paused = False
