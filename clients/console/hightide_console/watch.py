"""Watches the cluster while somebody looks: a short question several times a second, a long one as often as a
tenth of a core allows. Nobody looks, nothing is asked."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import replace
from typing import Final

from hightide import ClusterDescription
from hightide.errors import BrokersUnavailableError, HightideError, NotAuthorizedError

from hightide_console.looks import Pulse, Reach, ServerLook, Survey
from hightide_console.views.groups import LagHistory
from hightide_console.views.traffic import TrafficHistory

_PULSE_PAUSE_S: Final = 0.3
_SURVEY_PAUSE_S: Final = 1.0
_SURVEY_PAUSE_MAX_S: Final = 30.0
_SERVERS_PAUSE_S: Final = 1.0
#: The long question rests nine times as long as the console has worked since the one before.
_REST_OF_SURVEY: Final = 9
#: For so long after the last page or stream, the cluster is still watched.
_IDLE_AFTER_S: Final = 15.0


class ClusterWatch:
    """The newest knowledge of the cluster, and the tasks that renew it. For one event loop."""

    def __init__(
        self,
        ask_pulse: Callable[[], Awaitable[ClusterDescription]],
        ask_survey: Callable[[], Awaitable[Survey]],
        ask_servers: Callable[[ClusterDescription], Awaitable[tuple[ServerLook, ...]]],
        monotonic: Callable[[], float] = time.monotonic,
    ) -> None:
        self._ask_pulse, self._ask_survey, self._ask_servers = ask_pulse, ask_survey, ask_servers
        self._monotonic = monotonic
        self.pulse = Pulse()
        self.survey: Survey | None = None
        self.servers: tuple[ServerLook, ...] = ()
        self.traffic = TrafficHistory()
        self.lags = LagHistory()
        self.version = 0
        self._changed = asyncio.Condition()
        self._wanted = asyncio.Event()
        self._wanted_at_s = float("-inf")
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        """Begin to watch. Called when the server starts."""
        follow = (self._follow_pulse, self._follow_survey, self._follow_servers)
        self._tasks = [asyncio.create_task(each()) for each in follow]

    async def stop(self) -> None:
        """End the watching. Called when the server stops."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    @property
    def failure(self) -> BaseException | None:
        """What ended one of its tasks, if anything did. It is a bug, and all figures would stay as they
        are."""
        ended = (task for task in self._tasks if task.done() and not task.cancelled())
        return next((task.exception() for task in ended), None)

    def want(self) -> None:
        """Somebody looks: go on asking for a while. Called for each page, and again and again by streams."""
        self._wanted_at_s = self._monotonic()
        self._wanted.set()

    async def changed(self, version: int, timeout_s: float) -> int:
        """Wait until there is something newer than `version`, or the time is over. Returns the version."""
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s), self._changed:
                await self._changed.wait_for(lambda: self.version > version)
        return self.version

    async def first(self, timeout_s: float) -> None:
        """Wait for the first answers, for at most so long: a page that is opened first shows figures."""
        self.want()
        end_s = self._monotonic() + timeout_s
        while not self._has_answers and (left_s := end_s - self._monotonic()) > 0:
            await self.changed(self.version, left_s)

    @property
    def _has_answers(self) -> bool:
        """Whether there is something to show: figures, or why there are none."""
        if self.pulse.reach in (Reach.UP, Reach.NOT_ALLOWED):
            return self.survey is not None
        return self.pulse.reach is not Reach.UNKNOWN

    async def _follow_pulse(self) -> None:
        while True:
            await self._until_wanted()
            before, answer = self.pulse, await self._asked_pulse()
            self.pulse = pulse_after(before, answer, time.time_ns() // 1_000_000)
            if self.pulse.reach is not Reach.UP or replace(self.pulse, at_ms=before.at_ms) != before:
                await self._tell()
            await asyncio.sleep(_PULSE_PAUSE_S)

    async def _asked_pulse(self) -> ClusterDescription | HightideError:
        try:
            return await self._ask_pulse()
        except HightideError as error:
            return error

    async def _follow_survey(self) -> None:
        begun_s = time.thread_time()
        while True:
            await self._until_wanted()
            try:
                survey = await self._ask_survey()
            except HightideError:
                # The pulse says that the cluster does not answer, and why.
                await asyncio.sleep(_SURVEY_PAUSE_S)
                continue
            self.survey = survey
            self.traffic.add(survey)
            self.lags.add(survey)
            await self._tell()
            # The survey counts, and what windows were sent since the one before; but not what somebody
            # searches in records, which threads do.
            worked_s, begun_s = time.thread_time() - begun_s, time.thread_time()
            rest_s = worked_s * _REST_OF_SURVEY
            await asyncio.sleep(min(_SURVEY_PAUSE_MAX_S, max(_SURVEY_PAUSE_S, rest_s)))

    async def _follow_servers(self) -> None:
        """Apart from the others: where there is no controller, and no survey, it still says why."""
        while True:
            await self._until_wanted()
            cluster = self.pulse.cluster
            if cluster is not None:
                servers = await self._ask_servers(cluster)
                if servers != self.servers:
                    self.servers = servers
                    await self._tell()
            await asyncio.sleep(_SERVERS_PAUSE_S)

    async def _until_wanted(self) -> None:
        if self._monotonic() - self._wanted_at_s > _IDLE_AFTER_S:
            self._wanted.clear()
            await self._wanted.wait()

    async def _tell(self) -> None:
        async with self._changed:
            self.version += 1
            self._changed.notify_all()


def _reach_of(error: HightideError) -> Reach:
    match error:
        case BrokersUnavailableError():
            return Reach.DOWN
        case NotAuthorizedError():
            return Reach.NOT_ALLOWED
        case _:
            return Reach.NO_CONTROLLER


def pulse_after(before: Pulse, answer: ClusterDescription | HightideError, now_ms: int) -> Pulse:
    """What is known after one short question. Pure. A cluster of which brokers answer, but no controller, is
    not down: its records can be read."""
    if isinstance(answer, HightideError):
        reach = _reach_of(answer)
        cluster, sentence = before.cluster, str(answer)
    else:
        reach, cluster, sentence = Reach.UP, answer, ""
    since_ms = before.since_ms if reach is before.reach else now_ms
    return Pulse(reach, now_ms, since_ms, sentence, cluster)
