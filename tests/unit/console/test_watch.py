"""The cluster is asked while somebody looks, and what is new wakes those who wait."""

import asyncio
from contextlib import ExitStack

import pytest
from hightide import ClusterDescription
from hightide.errors import BrokersUnavailableError, HightideError, NotAuthorizedError
from hightide_console.console import TooManyStreamsError
from hightide_console.events import changed_parts, event, stream
from hightide_console.looks import Pulse, Reach, ServerLook, Survey
from hightide_console.settings import STREAMS_MAX, TAILS_MAX
from hightide_console.views.overview import status_of
from hightide_console.watch import ClusterWatch, pulse_after
from starlette.responses import Response
from starlette.types import Message
from unit.console.canned_cluster import CLUSTER, canned_console, survey

SERVERS = (ServerLook("broker", "broker 1", "127.0.0.1:9091", 6_000),)


class Asked:
    """Answers the questions, and counts them."""

    def __init__(self) -> None:
        self.pulses = self.surveys = 0
        self.failure: HightideError | None = None

    async def pulse(self) -> ClusterDescription:
        self.pulses += 1
        if self.failure is not None:
            raise self.failure
        return CLUSTER

    async def survey(self) -> Survey:
        self.surveys += 1
        if self.failure is not None:
            raise self.failure
        return survey(number=self.surveys)

    async def servers(self, cluster: ClusterDescription) -> tuple[ServerLook, ...]:
        assert cluster is CLUSTER
        return SERVERS


async def looked_at_once(asked: Asked) -> ClusterWatch:
    watch = ClusterWatch(asked.pulse, asked.survey, asked.servers)
    watch.start()
    await watch.first(30.0)
    await watch.stop()
    return watch


def test_a_bug_in_a_question_is_told_and_does_not_hide_behind_old_figures() -> None:
    class WithBug(Asked):
        async def survey(self) -> Survey:
            raise ZeroDivisionError

    async def run() -> ClusterWatch:
        asked = WithBug()
        watch = ClusterWatch(asked.pulse, asked.survey, asked.servers)
        watch.start()
        watch.want()
        while watch.failure is None:
            await watch.changed(watch.version, 0.01)
        await watch.stop()
        return watch

    assert isinstance(asyncio.run(run()).failure, ZeroDivisionError)
    assert asyncio.run(looked_at_once(Asked())).failure is None


def test_nobody_looks_and_nothing_is_asked() -> None:
    async def run() -> Asked:
        asked = Asked()
        watch = ClusterWatch(asked.pulse, asked.survey, asked.servers)
        watch.start()
        await watch.changed(0, 0.05)
        await watch.stop()
        return asked

    asked = asyncio.run(run())
    assert (asked.pulses, asked.surveys) == (0, 0)


def test_a_page_that_is_opened_first_gets_the_first_answers() -> None:
    watch = asyncio.run(looked_at_once(Asked()))
    assert watch.pulse.reach is Reach.UP
    assert watch.survey is not None


def test_processes_are_asked_of_themselves_apart_from_the_survey_that_may_not_come() -> None:
    async def run() -> ClusterWatch:
        asked = Asked()
        watch = ClusterWatch(asked.pulse, never, asked.servers)
        watch.start()
        watch.want()
        while not watch.servers:
            await watch.changed(watch.version, 30.0)
        await watch.stop()
        return watch

    assert asyncio.run(run()).servers == SERVERS


async def never() -> Survey:
    await asyncio.Event().wait()
    raise AssertionError("nobody sets it")


def test_who_may_not_describe_the_cluster_is_told_so_and_sees_the_rest() -> None:
    refused = NotAuthorizedError("client/alice may not describe the cluster")
    pulse = pulse_after(Pulse(), refused, 5_000)
    status = status_of(pulse, survey(), 6_000)
    assert (status.word, status.tone) == ("In part", "warning")
    assert "client/alice may not describe" in status.sentence


def test_a_cluster_that_is_down_is_an_answer_too() -> None:
    asked = Asked()
    asked.failure = BrokersUnavailableError("no broker answers")
    watch = asyncio.run(looked_at_once(asked))
    assert (watch.pulse.reach, watch.survey) == (Reach.DOWN, None)


def test_a_window_is_sent_the_parts_that_differ_from_what_it_has() -> None:
    async def run() -> list[str]:
        console = canned_console()
        parts = {"a": "<b>1</b>", "b": "same"}
        messages = changed_parts(console, lambda: dict(parts))
        console.watch.version = 1
        first = await anext(messages)
        parts["a"] = "<b>2</b>"
        console.watch.version = 2
        return [first, await anext(messages)]

    first, second = asyncio.run(run())
    assert first == event("parts", {"a": "<b>1</b>", "b": "same"})
    assert second == event("parts", {"a": "<b>2</b>"})


def test_each_look_has_its_turn_also_when_no_part_differs() -> None:
    """The charts of an idle cluster go on, and a group's page follows its lag while its status stays."""

    async def run() -> list[str]:
        console = canned_console()
        messages = changed_parts(console, lambda: {"a": "same"})
        heard = []
        for version in (1, 2):
            console.watch.version = version
            heard.append(await asyncio.wait_for(anext(messages), 30.0))
        return heard

    first, second = asyncio.run(run())
    assert first == event("parts", {"a": "same"})
    assert second.startswith(":")


def test_an_event_is_one_line_of_data_whatever_is_in_it() -> None:
    assert event("parts", {"a": "x\n\nevent: other\n"}).count("\n") == 3


def test_one_window_too_many_is_refused_and_a_closed_one_makes_room() -> None:
    console = canned_console()
    with ExitStack() as stack:
        for _ in range(STREAMS_MAX):
            stack.enter_context(console.stream("events"))
        with pytest.raises(TooManyStreamsError), console.stream("events"):
            pass
    with console.stream("events"):
        pass


def test_a_live_tail_is_one_of_the_windows_that_are_served() -> None:
    console = canned_console()
    with ExitStack() as stack:
        for at in range(STREAMS_MAX):
            stack.enter_context(console.stream("tail" if at < TAILS_MAX else "events"))
        with pytest.raises(TooManyStreamsError), console.stream("events"):
            pass


def test_a_window_that_is_gone_before_its_first_message_leaves_its_place() -> None:
    async def run() -> list[str]:
        console = canned_console()

        async def gone() -> Message:
            return {"type": "http.disconnect"}

        async def send(message: Message) -> None:
            await asyncio.sleep(0)  # As a server does whose window takes nothing at the moment.

        for _ in range(2 * STREAMS_MAX):
            answer = stream(console, changed_parts(console, dict))
            await answer({"type": "http", "asgi": {"spec_version": "2.3"}}, gone, send)
        return await _sent_first(stream(console, changed_parts(console, dict)))

    assert asyncio.run(run())[0] == "retry: 1000\n\n"


async def _sent_first(answer: Response) -> list[str]:
    """What a window that stays gets first."""
    sent: list[str] = []
    heard = asyncio.Event()

    async def stays() -> Message:
        await heard.wait()
        return {"type": "http.disconnect"}

    async def send(message: Message) -> None:
        if message["type"] == "http.response.body":
            sent.append(message["body"].decode())
            heard.set()

    await answer({"type": "http", "asgi": {"spec_version": "2.3"}}, stays, send)
    return sent
