"""The pages of topics and of their records."""

from typing import Final

from hightide.errors import HightideError
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Route

from hightide_console.console import Console, console_of
from hightide_console.events import changed_parts, stream
from hightide_console.reading import RecordsRead
from hightide_console.views.overview import topic_rows
from hightide_console.views.record_query import Match, RecordQuery, Start, query_of, whole_number
from hightide_console.views.records import Form, record_view
from hightide_console.views.topic import TopicView, topic_view

_FIRST_S: Final = 0.7


async def topics(request: Request) -> Response:
    """All topics, or those whose name contains some text."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    return console.page("topics", {**_listed(console, _wanted(request)), "active": "topics"})


async def topics_events(request: Request) -> Response:
    """What changes in the list: rates, states, topics that come and go."""
    console = console_of(request)
    wanted = _wanted(request)

    def parts() -> dict[str, str]:
        values = {**_listed(console, wanted), "status": console.status()}
        return {name: console.part(name, values) for name in ("status", "topic_list")}

    return stream(console, changed_parts(console, parts))


async def topic(request: Request) -> Response:
    """One topic: partitions and settings. Its records are read when somebody asks for them."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    name = request.path_params["topic"]
    try:
        (described,) = await console.door.admin.describe_topics([name])
    except HightideError as error:
        return failed(console, error, f"topic {name}", "topics")
    view = topic_view(described, console.watch.survey, _page(request))
    return console.page(
        "topic", {"view": view, "query": RecordQuery(), "choices": CHOICES, "active": "topics"}
    )


async def topic_events(request: Request) -> Response:
    """What changes on it."""
    console = console_of(request)
    name, page = request.path_params["topic"], _page(request)

    def parts() -> dict[str, str]:
        survey = console.watch.survey
        described = next((each for each in survey.topics if each.name == name), None) if survey else None
        own: dict[str, str] = {"status": console.part("status", {"status": console.status()})}
        if described is not None:
            own["partitions"] = console.part("partitions", {"view": topic_view(described, survey, page)})
        return own

    return stream(console, changed_parts(console, parts))


async def records(request: Request) -> Response:
    """The records that a form asks for."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    name, query = request.path_params["topic"], query_of(request.query_params)
    view: TopicView | None = None
    read, sentence = None, " ".join(query.errors)
    try:
        (described,) = await console.door.admin.describe_topics([name])
        view = topic_view(described, console.watch.survey)
        if not query.errors:
            read = await console.reading.read(name, query)
    except HightideError as error:
        if view is None:
            return failed(console, error, f"topic {name}", "topics")
        sentence = str(error)
    except ValueError as error:
        sentence = f"This expression cannot be read: {error}"
    return console.page(
        "records",
        {
            "view": view,
            "query": query,
            "choices": CHOICES,
            "sentence": sentence,
            "read": read,
            "records": _shown(read, query),
            "active": "topics",
        },
    )


async def raw_value(request: Request) -> Response:
    """The value of one record, or its key, byte for byte: as a download, which no browser opens as a page."""
    console = console_of(request)
    topic, part = request.path_params["topic"], request.path_params["part"]
    partition = whole_number(request.path_params["partition"])
    offset = whole_number(request.path_params["offset"])
    if part not in ("key", "value") or partition is None or offset is None:
        return PlainTextResponse("A record is asked for by /PARTITION/OFFSET/key, or /value.\n", 404)
    try:
        found = await console.reading.one(topic, partition, offset)
    except HightideError as error:
        return PlainTextResponse(f"{error}\n", 502)
    content = None if found is None else found.key if part == "key" else found.value
    if content is None:
        return PlainTextResponse(f"{topic}-{partition} has nothing at offset {offset}\n", 404)
    name = f"{part}-{partition}-{offset}.bin"
    return Response(
        content,
        media_type="application/octet-stream",
        headers={"content-disposition": f'attachment; filename="{name}"'},
    )


def failed(console: Console, error: HightideError, what: str, active: str) -> Response:
    """The page that says why something cannot be shown, and what to do."""
    values = {"what": what, "sentence": str(error), "active": active}
    return console.page("failed", values, status_code=502)


def _wanted(request: Request) -> str:
    return request.query_params.get("name", "")[:250]


def _listed(console: Console, wanted: str) -> dict[str, object]:
    rows = [each for each in topic_rows(console.watch.survey) if wanted in each.name]
    return {"rows": rows, "wanted": wanted}


def _shown(read: RecordsRead | None, query: RecordQuery) -> list[object]:
    if read is None:
        return []
    found = [record_view(each, query.form) for each in read.records]
    return list(reversed(found)) if query.start is Start.NEWEST else list(found)


def _page(request: Request) -> int:
    return whole_number(request.query_params.get("page", "1")) or 1


CHOICES: Final = {
    "start": [
        (Start.NEWEST.value, "the newest"),
        (Start.EARLIEST.value, "the earliest"),
        (Start.OFFSET.value, "an offset"),
        (Start.TIME.value, "a time"),
    ],
    "match": [
        (Match.ALL.value, "all records"),
        (Match.KEY.value, "the key is"),
        (Match.CONTAINS.value, "they contain"),
        (Match.PATTERN.value, "they match (RE2)"),
    ],
    "form": [(each.value, each.value) for each in Form],
}

ROUTES: Final = (
    Route("/topics", topics, name="topics"),
    Route("/topics/{topic}", topic, name="topic"),
    Route("/topics/{topic}/records", records, name="records"),
    Route("/topics/{topic}/records/{partition}/{offset}/{part}", raw_value),
    Route("/events/topics", topics_events),
    Route("/events/topics/{topic}", topic_events),
)
