"""The live tail of a topic: records as they come, as many as somebody can read."""

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

from hightide import TopicPartition
from hightide.aio import Consumer
from hightide.errors import HightideError
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hightide_console.console import Console, console_of
from hightide_console.events import event, stream
from hightide_console.pages.topics import failed
from hightide_console.settings import PARTITIONS_AT_ONCE_MAX
from hightide_console.views.records import record_view

_POLL_S: Final = 1.0
_POLL_RECORDS_MAX: Final = 1_000
#: Nobody reads more often, and each message has a page to lay out.
_REST_S: Final = 0.4
#: Of what comes in one poll, the newest are shown and the others counted.
_SHOWN_MAX: Final = 50
_BYTES_SHOWN: Final = 1_024


async def tail(request: Request) -> Response:
    """The page."""
    console = console_of(request)
    name = request.path_params["topic"]
    try:
        (described,) = await console.door.admin.describe_topics([name])
    except HightideError as error:
        return failed(console, error, f"topic {name}", "topics")
    values = {"topic": name, "count": len(described.partitions), "most": PARTITIONS_AT_ONCE_MAX}
    return console.page("tail", {**values, "active": "topics"})


async def tail_events(request: Request) -> Response:
    """The records, from the end of each partition on."""
    console = console_of(request)
    return stream(console, _records(console, request.path_params["topic"]), kind="tail")


async def _records(console: Console, topic: str) -> AsyncGenerator[str]:
    try:
        (described,) = await console.door.admin.describe_topics([topic])
        places = [TopicPartition(topic, each.partition) for each in described.partitions]
        async with Consumer(
            **console.door.arguments, client_id="hightide-console", offset_reset="latest"
        ) as consumer:
            await consumer.assign(places[:PARTITIONS_AT_ONCE_MAX])
            while True:
                console.watch.want()
                found = await consumer.poll(_POLL_S, _POLL_RECORDS_MAX)
                if not found:
                    yield ": nothing new\n\n"
                    continue
                views = [
                    record_view(each, bytes_max=_BYTES_SHOWN) for each in reversed(list(found)[-_SHOWN_MAX:])
                ]
                skipped = len(found) - len(views)
                if len(found) == _POLL_RECORDS_MAX:
                    # More than it takes: what waits is left out, or the tail would fall behind what comes.
                    skipped += await _passed_over(consumer, places[:PARTITIONS_AT_ONCE_MAX])
                html = console.part("records", {"records": views})
                yield event("records", {"html": html, "skipped": skipped})
                await asyncio.sleep(_REST_S)
    except HightideError as error:
        yield event("tail", {"sentence": f"{error} It goes on by itself when the topic can be read."})


async def _passed_over(consumer: Consumer, places: list[TopicPartition]) -> int:
    """Go on at the ends of the partitions. Returns how many records that leaves out."""
    ends = await consumer.end_offsets(places)
    left_out = 0
    for place, end in ends.items():
        behind = end - await consumer.position(place)
        if behind > 0:
            left_out += behind
            await consumer.seek(place, end)
    return left_out


ROUTES: Final = (
    Route("/topics/{topic}/tail", tail, name="tail"),
    Route("/events/topics/{topic}/tail", tail_events),
)
