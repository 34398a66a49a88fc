"""Some members of a consumer group, each a thread of one process, that take orders from the parent."""

import json
import sys
import threading
import time
from typing import Any

from hightide_bench.loads.load_worker import load_main, say_ready
from hightide_bench.peers.loads.clients import Clients, clients_of

#: When, which member, and which partitions it has from then on.
Event = tuple[float, int, list[int]]


class GroupLoad:
    """The members, and what became of their partitions."""

    def __init__(self, clients: Clients, topic: str, group: str) -> None:
        self._clients, self._topic, self._group = clients, topic, group
        self._lock = threading.Lock()
        self._events: list[Event] = []
        self._first_leaves = threading.Event()

    def join(self, members: int) -> None:
        """Let all members join, at once."""
        for number in range(members):
            threading.Thread(target=self._be_member, args=(number,), daemon=True).start()

    def leave(self) -> None:
        """Let the first member leave in order."""
        self._first_leaves.set()

    def take_events(self) -> list[Event]:
        """Return what happened since the last question."""
        with self._lock:
            events, self._events = self._events, []
        return events

    def _be_member(self, number: int) -> None:
        changed = threading.Event()
        member = self._clients.member(self._topic, self._group, changed.set)
        while not (number == 0 and self._first_leaves.is_set()):
            member.poll()
            if changed.is_set():
                changed.clear()
                self._note(number, member.assignment())
        self._note(number, [])
        member.leave()

    def _note(self, number: int, partitions: list[int]) -> None:
        with self._lock:
            self._events.append((time.monotonic(), number, partitions))


def run(configuration: dict[str, Any]) -> dict[str, Any]:
    """Carry out orders until the parent ends this process or its input."""
    load = GroupLoad(clients_of(configuration), configuration["topic"], configuration["group"])
    say_ready()
    for line in sys.stdin:
        order = json.loads(line)["do"]
        if order == "join":
            load.join(configuration["members"])
        elif order == "leave":
            load.leave()
        print(json.dumps({"events": load.take_events()}), flush=True)
    return {}


if __name__ == "__main__":
    load_main(run)
