"""The one door into the cluster: the SDK's clients, made with the credentials of whoever started the console.

Every question of the console passes here. Nothing is decided here.
"""

import asyncio
import http.client
import time
import urllib.error
import urllib.request
from collections import deque
from collections.abc import Awaitable, Mapping
from types import TracebackType
from typing import Final, Self, TypeVar

from hightide import ClusterDescription, GroupListing, ReplicaListing
from hightide.aio import Admin
from hightide.errors import HightideError, NotAuthorizedError
from hightide.servers import LogDirectory
from hightide_cli.cluster.server_survey import servers_of
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.reassign.progress import Watched
from hightide_cli.top.history import GroupLook, Look, TopHistory

from hightide_console.looks import ServerLook, Survey
from hightide_console.scrapes import Scrape, ServerFigures, figures_between, scrape_of

#: A cluster that does not answer for so long is said to be down: with the pause between two questions, within
#: a second.
_PULSE_TIMEOUT_MS: Final = 600
_ASK_TIMEOUT_MS: Final = 5_000
#: Each group costs a call; the others are asked at the next looks, in turns.
_GROUPS_A_LOOK: Final = 20
_SCRAPE_TIMEOUT_S: Final = 0.5
_SCRAPE_BYTES_MAX: Final = 2 << 20
#: What somebody knows of the cluster who may not describe it.
_NOTHING_KNOWN: Final = ClusterDescription("", -1, "", 0, (), 0, 0, 0, 0, 0)
Answer = TypeVar("Answer")


class ClusterDoor:
    """The clients of one console. `pulse_admin` gives up soon, `admin` waits for an answer."""

    def __init__(self, arguments: ClientArguments) -> None:
        self.arguments = arguments
        self.pulse_admin = Admin(**arguments, timeout_ms=_PULSE_TIMEOUT_MS, client_id="hightide-console")
        self.admin = Admin(**arguments, timeout_ms=_ASK_TIMEOUT_MS, client_id="hightide-console")
        self._history = TopHistory()
        self._moves = Watched()
        self._turns: deque[str] = deque()
        self._scrapes: dict[str, Scrape] = {}
        self._servers: list[ServerLook] = []
        self._surveys = 0

    async def survey(self) -> Survey:
        """Ask everything once. Raises HightideError where the controller or all brokers do not answer."""
        cluster = await _allowed(self.admin.describe_cluster(), _NOTHING_KNOWN)
        topics = await self.admin.describe_topics()
        replicas = await _allowed(self.admin.describe_replicas(), ReplicaListing(()))
        at_s = time.monotonic()
        directories = await self._directories()
        coordinators = await self.admin.coordinators()
        groups, listed = await self._groups(any(coordinators))
        moving = cluster.reassignment_count
        moves = (await self.admin.list_reassignments()).reassignments if moving else ()
        look = Look(at_s, cluster, replicas, groups, len(listed), moves)
        figures = await self._figures()
        self._surveys += 1
        return Survey(
            number=self._surveys,
            at_ms=time.time_ns() // 1_000_000,
            topics=tuple(topics),
            replicas=replicas,
            directories=tuple(directories),
            coordinators=coordinators,
            groups=tuple(listed),
            top=self._history.look(look, [each.group for each in listed]),
            moves=self._moves.look(at_s, moves, replicas.replicas),
            figures=figures,
        )

    async def look_at_servers(self, cluster: ClusterDescription) -> tuple[ServerLook, ...]:
        """Ask every process of itself. One that does not answer costs one short wait, whatever it is."""
        asked = [(kind, address) for kind, _, address in servers_of(cluster, ()) if address]
        self._servers = await asyncio.gather(*(self._look_at(*each) for each in asked))
        return tuple(self._servers)

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(self.pulse_admin.close(), self.admin.close())

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def _directories(self) -> list[LogDirectory]:
        try:
            return await self.admin.describe_log_directories()
        except HightideError:
            # The replicas were told of a moment ago; the disks are asked for at the next look.
            return []

    async def _groups(self, has_coordinator: bool) -> tuple[list[GroupLook], list[GroupListing]]:
        """The offsets of the groups whose turn it is, and all groups. Without a coordinator there are
        none."""
        if not has_coordinator:
            return [], []
        try:
            listed = {each.group: each for each in await self.admin.list_groups()}
        except HightideError:
            return [], []
        known = set(self._turns)
        self._turns.extend(name for name in listed if name not in known)
        looks: list[GroupLook] = []
        for _ in range(min(_GROUPS_A_LOOK, len(self._turns))):
            name = self._turns.popleft()
            if name not in listed:
                continue
            self._turns.append(name)
            try:
                held = await self.admin.group_offsets(name)
            except HightideError:
                continue
            offsets = {each: committed.offset for each, committed in held.items()}
            looks.append(GroupLook(name, listed[name].state, listed[name].member_count, offsets))
        return looks, list(listed.values())

    async def _figures(self) -> Mapping[str, ServerFigures]:
        """What the brokers serve to Prometheus, if they were told to; by address."""
        brokers = [each for each in self._servers if each.kind == "broker" and each.metrics_url]
        urls = {each.address: each.metrics_url for each in brokers}
        texts = await asyncio.gather(*(asyncio.to_thread(scraped, url) for url in urls.values()))
        figures: dict[str, ServerFigures] = {}
        for address, text in zip(urls, texts, strict=True):
            before = self._scrapes.pop(address, None)
            if text is None:
                continue
            now = self._scrapes[address] = scrape_of(text, time.monotonic())
            moved = None if before is None else figures_between(before, now)
            if moved is not None:
                figures[address] = moved
        return figures

    async def _look_at(self, kind: str, address: str) -> ServerLook:
        try:
            told = await self.pulse_admin.describe_server(address)
        except HightideError:
            return ServerLook(kind, f"{kind} at {address}", address, None)
        settings = {each.name: each.value for each in told.settings}
        # In a cluster that leaders coordinate, a broker is at the address of the controller.
        return ServerLook(
            told.service,
            f"{told.service} {told.instance}",
            address,
            told.zookeeper_session_timeout_ms,
            settings.get("zookeeper", ""),
            metrics_url(address, settings.get("prometheus-listen", "")),
        )


async def _allowed(answer: Awaitable[Answer], nothing: Answer) -> Answer:
    """The answer, or nothing where ACLs keep it from whoever started the console: the rest is shown."""
    try:
        return await answer
    except NotAuthorizedError:
        return nothing


def metrics_url(address: str, listens: str) -> str:
    """Where a server that answers at `address` serves its metrics, by its setting; "" if nowhere."""
    host, found, port = listens.rpartition(":")
    if not found or not port.isdigit() or port == "0":
        return ""
    if host in ("", "0.0.0.0", "[::]"):
        host = address.rpartition(":")[0]
    return f"http://{host}:{port}/metrics"


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """A server serves its metrics itself: it sends nobody elsewhere."""

    def redirect_request(self, *_: object) -> None:
        """Follow none: the answer counts as an error."""
        return


def scraped(url: str) -> str | None:
    """The text at a server's own address, or None where it does not answer. Runs in a thread."""
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())
    try:
        with opener.open(url, timeout=_SCRAPE_TIMEOUT_S) as answer:
            content: bytes = answer.read(_SCRAPE_BYTES_MAX)
    except (urllib.error.URLError, http.client.HTTPException, OSError, ValueError):
        return None
    return content.decode(errors="replace")
