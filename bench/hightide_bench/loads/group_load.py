"""The load of `bench groups`: many consumers in one process, which obeys the parent's orders, one on each
line."""

import asyncio
import gc
import json
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from typing import Any

import uvloop

from hightide_bench.loads.group_member import (
    CoordinatorFinder,
    GroupMember,
    MemberChannels,
    MemberNotes,
    MemberPlan,
)
from hightide_bench.loads.load_worker import say_ready

_REGISTERING_MAX = 200
"""The number of consumers of a process that connect and register at a time while a group is made, because
thousands of processes never start within one millisecond. When a coordinator dies, all of them come at
once."""


class GroupLoad:
    """All consumers of this process."""

    def __init__(self, configuration: Mapping[str, Any]) -> None:
        self._configuration = configuration
        self._connections = MemberChannels(configuration["streams_per_connection"])
        self._finder = CoordinatorFinder(configuration["bootstrap"])
        self._notes = MemberNotes()
        self._members: dict[str, GroupMember] = {}
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._admission = asyncio.Semaphore(_REGISTERING_MAX)

    async def obey(self, order: dict[str, Any]) -> Mapping[str, object]:
        """Carry out the order of one line, and return the result."""
        match order.pop("do"):
            case "join":
                return self._join(**order)
            case "leave":
                return await self._leave(**order)
            case "tell":
                return self._tell()
            case "forget":
                return self._forget()
            case "reading":
                return self._reading()
            case other:
                raise AssertionError(f"{other} is nothing that this load does")

    async def close(self) -> None:
        """End without goodbyes."""
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._finder.close()

    def _join(self, group: str, consumers: dict[str, int], assignor: str) -> Mapping[str, object]:
        """Let consumers (id → number) register; returns before they have."""
        for consumer_id, place in consumers.items():
            plan = MemberPlan(
                place=place,
                group=group,
                consumer_id=consumer_id,
                topic=self._configuration["topic"],
                assignor=assignor,
                session_timeout_ms=self._configuration["session_timeout_ms"],
                # 37: spread over all groups and processes.
                moves=place * 37 % 100 < self._configuration["moving_percent"],
            )
            member = GroupMember(plan, self._connections, self._finder, self._notes)
            self._members[consumer_id] = member
            self._tasks[consumer_id] = asyncio.create_task(member.live(self._admission))
        return {}

    async def _leave(self, consumers: list[str]) -> Mapping[str, object]:
        leaving = [self._members.pop(consumer_id) for consumer_id in consumers]
        tasks = [self._tasks.pop(consumer_id) for consumer_id in consumers]
        self._notes.left_s = time.monotonic()
        await asyncio.gather(*(member.leave() for member in leaving))
        await asyncio.gather(*tasks)
        return {}

    def _tell(self) -> Mapping[str, object]:
        notes = self._notes
        members = self._members.values()
        return {
            "members": sum(member.is_member for member in members),
            "confirmed": sum(member.is_confirmed for member in members),
            "coordinator_epoch": min((member.coordinator_epoch for member in members), default=0),
            "partitions": sum(len(member.reading) for member in members),
            "first_registration_s": notes.first_registration_s,
            "left_s": notes.left_s,
            "last_answer_s": notes.last_answer_s,
            "last_confirmed_s": notes.last_confirmed_s,
            "heard": sorted(notes.heard)[:100],
            "heard_count": len(notes.heard),
            "stopped": notes.stopped,
            "started": notes.started,
            "pings": notes.pings,
            "breaks": notes.breaks,
            "look_ups": notes.look_ups,
            "attempts": notes.attempts,
            "refused": dict(notes.refused),
        }

    def _forget(self) -> Mapping[str, object]:
        """Begin new notes, but keep the failures."""
        notes = self._notes
        notes.first_registration_s = notes.left_s = notes.last_answer_s = notes.last_confirmed_s = 0.0
        notes.heard.clear()
        notes.stopped = notes.started = notes.pings = notes.breaks = notes.look_ups = notes.attempts = 0
        return {}

    def _reading(self) -> Mapping[str, object]:
        """Group → each partition that is read, as often as it is read."""
        reading: dict[str, list[int]] = {}
        for member in self._members.values():
            reading.setdefault(member.plan.group, []).extend(member.reading)
        return {"reading": reading}


async def _run(configuration: dict[str, Any]) -> None:
    load = GroupLoad(configuration)
    orders: asyncio.Queue[str | None] = asyncio.Queue()
    loop = asyncio.get_running_loop()

    def read() -> None:
        for line in _lines():
            loop.call_soon_threadsafe(orders.put_nowait, line)

    threading.Thread(target=read, daemon=True).start()
    say_ready()
    while (line := await orders.get()) is not None:
        print(json.dumps(await load.obey(json.loads(line))), flush=True)
    await load.close()


def _lines() -> Iterator[str | None]:
    yield from sys.stdin
    yield None


if __name__ == "__main__":
    gc.set_threshold(100_000, 1, 1_000)
    uvloop.run(_run(json.loads(sys.argv[1])))
