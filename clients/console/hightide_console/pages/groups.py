"""The pages of consumer groups."""

import asyncio
import json
from collections.abc import AsyncGenerator
from typing import Final

from hightide.errors import HightideError
from hightide_cli.trace.search import all_traces
from hightide_runtime.telemetry.span_kinds import COORDINATOR_FAILOVER, GROUP_REBALANCE
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from hightide_console.console import console_of
from hightide_console.events import changed_parts, event, stream
from hightide_console.pages.topics import failed
from hightide_console.views.groups import group_rows, group_view
from hightide_console.views.rebalances import rebalance_rows

_FIRST_S: Final = 0.7
_WITH_REBALANCES: Final = frozenset({GROUP_REBALANCE, COORDINATOR_FAILOVER})
_PARTS: Final = ("group", "members", "lags")


async def groups(request: Request) -> Response:
    """All groups."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    return console.page("groups", {"rows": group_rows(console.watch.survey), "active": "groups"})


async def groups_events(request: Request) -> Response:
    """What changes in the list: lags, states, groups that come and go."""
    console = console_of(request)

    def parts() -> dict[str, str]:
        values = {"rows": group_rows(console.watch.survey), "status": console.status()}
        return {name: console.part(name, values) for name in ("status", "group_list")}

    return stream(console, changed_parts(console, parts))


async def group(request: Request) -> Response:
    """One group: members, partitions, lag over time."""
    console = console_of(request)
    await console.watch.first(_FIRST_S)
    name = request.path_params["group"]
    try:
        described = await console.door.admin.describe_group(name)
        lags = await console.door.admin.group_lag(name)
    except HightideError as error:
        return failed(console, error, f"group {name}", "groups")
    traces = await asyncio.to_thread(all_traces, console.trace_directories, _WITH_REBALANCES)
    points = json.dumps(console.watch.lags.columns(name))
    view = group_view(described, lags)
    return console.page(
        "group",
        {
            "view": view,
            "points": points,
            "rebalances": rebalance_rows(traces, name),
            "has_traces": bool(console.trace_directories),
            "active": "groups",
        },
    )


async def group_events(request: Request) -> Response:
    """What changes on it. The coordinator is asked once for each survey, by each window."""
    console = console_of(request)
    name = request.path_params["group"]

    async def messages() -> AsyncGenerator[str]:
        number = -1

        def parts() -> dict[str, str]:
            return {"status": console.part("status", {"status": console.status()})}

        async for message in changed_parts(console, parts):
            yield message
            survey = console.watch.survey
            if survey is None or survey.number == number:
                continue
            number = survey.number
            columns = console.watch.lags.columns(name)
            if columns[0]:
                yield event("lag", [column[-1] for column in columns])
            try:
                described = await console.door.admin.describe_group(name)
                view = group_view(described, await console.door.admin.group_lag(name))
            except HightideError:
                continue  # The status says that the cluster does not answer.
            yield event(
                "parts", {each: console.part(each, {"view": view}) for each in ("group", "members", "lags")}
            )

    return stream(console, messages())


ROUTES: Final = (
    Route("/groups", groups, name="groups"),
    Route("/groups/{group}", group, name="group"),
    Route("/events/groups", groups_events),
    Route("/events/groups/{group}", group_events),
)
