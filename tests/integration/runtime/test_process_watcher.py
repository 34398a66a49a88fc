"""The process watcher on real processes: SIGKILL is noticed at once, SIGSTOP by pings."""

from __future__ import annotations

import asyncio
import signal
import socket
import sys
import threading
from contextlib import ExitStack, closing
from pathlib import Path

import grpc
import pytest
from hightide_local.processes.guard import ProcessGuard
from hightide_local.processes.managed_process import ManagedProcess
from hightide_local.processes.ports import free_port
from hightide_runtime.addresses import HostPort
from hightide_runtime.process.process_watcher import Pings, ProcessWatcher, is_refused
from hightide_runtime.serving.channels import OpenChannel, open_channel
from hightide_runtime.system_clock import SystemClock
from integration.controller.controller_harness import paused, until
from relay import Relay

SCRIPT = Path(__file__).with_name("health_process.py")


class Watched:
    """A process that serves health, and a watcher that holds a stream to it."""

    def __init__(self, directory: Path) -> None:
        self.address = HostPort("127.0.0.1", free_port())
        command = [sys.executable, str(SCRIPT), str(self.address.port)]
        self.process = ManagedProcess("health", command, {}, directory / "health.log")
        self._guard = ProcessGuard()
        self.died = asyncio.Event()
        self.watcher: ProcessWatcher

    async def start(self, pings: Pings | None = None, opens: OpenChannel = open_channel) -> None:
        self.process.start(self._guard)

        async def listens() -> bool:
            return not await is_refused(self.address)

        await until(listens, "the process listens")
        self.watcher = ProcessWatcher(
            self.address, "", SystemClock(), opens, lambda _: self.died.set(), pings
        )

        async def reached() -> bool:
            return self.watcher.was_reached

        await until(reached, "the stream is open")

    def pings(self, timeout_ms: int) -> Pings:
        return Pings(timeout_ms, others_answer, lambda _: self.died.set())

    async def stop(self) -> None:
        self.watcher.close()
        await self.watcher.closed()
        self.process.kill()
        self._guard.close()


def test_a_killed_process_is_dead_within_tens_of_milliseconds(tmp_path: Path) -> None:
    async def scenario(number: int) -> float:
        watched = Watched(tmp_path / str(number))
        await watched.start()
        loop = asyncio.get_running_loop()
        began = loop.time()
        watched.process.kill()
        await asyncio.wait_for(watched.died.wait(), 60)
        took_ms = (loop.time() - began) * 1000
        await watched.stop()
        return took_ms

    # Some 5 ms on a quiet machine. One that runs other tests too may hold up one or the other; who waited
    # for a ping or for the end of a session would need seconds each time.
    took_ms = min(asyncio.run(scenario(number)) for number in range(3))
    assert took_ms < 1_000, f"{took_ms:.0f} ms"


async def others_answer() -> bool:
    return True


def test_a_paused_process_is_not_dead_while_others_do_not_answer_either(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path)
        asked = 0
        asked_twice = asyncio.Event()

        async def nobody_answers() -> bool:
            nonlocal asked
            asked += 1
            if asked == 2:
                asked_twice.set()
            return False

        await watched.start(Pings(300, nobody_answers, lambda _: watched.died.set()))
        with paused(watched.process):
            await asyncio.wait_for(asked_twice.wait(), 60)
        assert not watched.died.is_set()
        await watched.stop()

    asyncio.run(scenario())


def test_a_process_that_answers_as_soon_as_others_do_is_not_dead(tmp_path: Path) -> None:
    """It was the watcher who was cut off, and the others are asked just when it is not any more."""

    async def scenario() -> None:
        watched = Watched(tmp_path)
        joined = asyncio.Event()
        cut = ExitStack()

        async def is_joined_again() -> bool:
            watched.watcher.was_reached = False
            cut.close()
            joined.set()
            return True

        await watched.start(Pings(3_000, is_joined_again, lambda _: watched.died.set()))
        cut.enter_context(paused(watched.process))
        await asyncio.wait_for(joined.wait(), 60)

        async def reached_or_dead() -> bool:
            return watched.watcher.was_reached or watched.died.is_set()

        await until(reached_or_dead, "the stream is open again")
        assert not watched.died.is_set()
        await watched.stop()

    asyncio.run(scenario())


def test_a_paused_process_is_dead_after_the_ping_timeout(tmp_path: Path) -> None:
    async def scenario() -> float:
        watched = Watched(tmp_path)
        await watched.start(watched.pings(1_200))
        loop = asyncio.get_running_loop()
        with paused(watched.process):
            began = loop.time()
            await asyncio.wait_for(watched.died.wait(), 60)
            took_s = loop.time() - began
        await watched.stop()
        return took_s

    # A ping that was answered just before leaves an answer and a connection to wait for: 800 ms.
    assert asyncio.run(scenario()) >= 0.75


@pytest.mark.parametrize("place", [0, 1])
def test_either_of_the_two_connections_that_are_pinged_may_break(tmp_path: Path, place: int) -> None:
    """Their pings take turns. Where one breaks, and the process answers, both begin anew."""

    async def scenario() -> None:
        watched = Watched(tmp_path)
        relayed = HostPort("127.0.0.1", free_port())
        pinged: list[HostPort] = []

        def opens(address: HostPort, *, ping_ms: int | None = None) -> grpc.aio.Channel:
            if ping_ms is not None:
                address = relayed if len(pinged) == place else address
                pinged.append(address)
            return open_channel(address, ping_ms=ping_ms)

        async def are_open() -> bool:
            return len(pinged) == 2

        async def are_open_anew() -> bool:
            return len(pinged) == 4

        with closing(Relay((relayed.host, relayed.port), (watched.address.host, watched.address.port))):
            await watched.start(watched.pings(1_200), opens)
            await until(are_open, "the second stream begins")
        await until(are_open_anew, "both streams begin anew")
        assert not watched.died.is_set()
        await watched.stop()

    asyncio.run(scenario())


def test_a_process_whose_loop_computes_answers_pings(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path)
        await watched.start(watched.pings(600))
        watched.process.send(signal.SIGUSR1)

        async def computed() -> bool:
            return "computed" in watched.process.log_tail()

        await until(computed, "it has computed")
        assert not watched.died.is_set()
        await watched.stop()

    asyncio.run(scenario())


def test_a_paused_process_is_not_dead_without_a_ping_timeout(tmp_path: Path) -> None:
    async def scenario() -> None:
        watched = Watched(tmp_path)
        await watched.start()
        with paused(watched.process):
            assert not await is_refused(watched.address)
            try:
                await asyncio.wait_for(watched.died.wait(), 1.5)
            except TimeoutError:
                pass
            else:
                raise AssertionError("a paused process was declared dead")
        await watched.stop()

    asyncio.run(scenario())


def test_a_process_that_never_answered_is_given_time_to_start(tmp_path: Path) -> None:
    async def scenario() -> float:
        address = HostPort("127.0.0.1", free_port())
        died = asyncio.Event()
        loop = asyncio.get_running_loop()
        began = loop.time()
        watcher = ProcessWatcher(address, "", SystemClock(), open_channel, lambda _: died.set())
        await asyncio.wait_for(died.wait(), 60)
        watcher.close()
        await watcher.closed()
        return loop.time() - began

    assert asyncio.run(scenario()) >= 0.2


def test_only_a_refusal_of_every_address_counts() -> None:
    async def scenario() -> None:
        with socket.socket() as listening:
            # Not one that the kernel may give to a client, or to the next server, once it is closed.
            port = free_port()
            listening.bind(("127.0.0.1", port))
            listening.listen()
            assert not await is_refused(HostPort("127.0.0.1", port))
            assert not await is_refused(HostPort("localhost", port))
        assert await is_refused(HostPort("127.0.0.1", port))
        assert await is_refused(HostPort("localhost", port))
        # What can be no name is asked of no name server.
        assert not await is_refused(HostPort("no such host", port))

    asyncio.run(scenario())


def test_a_name_server_that_does_not_answer_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    ends = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: ends.wait(60))

    async def scenario() -> None:
        try:
            assert not await asyncio.wait_for(is_refused(HostPort("broker-1", 9092)), 20)
        finally:
            ends.set()

    asyncio.run(scenario())
