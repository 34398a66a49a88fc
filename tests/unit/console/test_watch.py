"""The cluster is asked while somebody looks, and what is new wakes those who wait."""

import asyncio
from contextlib import ExitStack

import pytest
from hightide import ClusterDescription
from hightide.errors import BrokersUnavailableError, HightideError
from hightide_console.console import TooManyStreamsError
from hightide_console.events import changed_parts, event
from hightide_console.looks import Reach, Survey
from hightide_console.settings import STREAMS_MAX
from hightide_console.watch import ClusterWatch
from unit.console.canned_cluster import CLUSTER, canned_console, survey


class Asked:
    """Answers the two questions, and counts them."""

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


async def looked_at_once(asked: Asked) -> ClusterWatch:
    watch = ClusterWatch(asked.pulse, asked.survey)
    watch.start()
    await watch.first(30.0)
    await watch.stop()
    return watch


def test_nobody_looks_and_nothing_is_asked() -> None:
    async def run() -> Asked:
        asked = Asked()
        watch = ClusterWatch(asked.pulse, asked.survey)
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
