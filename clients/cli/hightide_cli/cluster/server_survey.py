"""Questions to many servers at once about themselves: those that do not answer cost one wait and no more."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from hightide import Admin, ClusterDescription
    from hightide.errors import HightideError
    from hightide.servers import ServerDescription

_AT_ONCE: Final = 16
_SERVERS_MAX: Final = 200
_KINDS: Final = ("broker", "controller", "coordinator")


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One server as the cluster knows it, with its own report, or the reason why there is none."""

    kind: str
    instance: int | None
    address: str
    description: "ServerDescription | None" = None
    error: "HightideError | None" = None

    @property
    def name(self) -> str:
        """The name that people use: broker 2, or the address if its id is not known."""
        if self.description is not None:
            return f"{self.description.service} {self.description.instance}"
        return f"{self.kind} at {self.address}" if self.instance is None else f"{self.kind} {self.instance}"


def servers_of(
    described: "ClusterDescription", coordinators: Iterable[str | None]
) -> list[tuple[str, int | None, str]]:
    """The kind, id and address of every server: of controllers and coordinators, the active ones, as
    `coordinators` lists them, and those on standby."""
    known: list[tuple[str, int | None, str]] = [
        ("broker", each.broker_id, each.address) for each in described.brokers if each.address is not None
    ]
    known.append(("controller", described.controller_id, described.controller_address))
    known += [("coordinator", None, each) for each in dict.fromkeys(coordinators) if each is not None]
    return with_standbys(known, described)[:_SERVERS_MAX]


def with_standbys(
    known: Iterable[tuple[str, int | None, str]], described: "ClusterDescription"
) -> list[tuple[str, int | None, str]]:
    """The known servers, and the other controllers and coordinators that the controller knows; sorted by
    kind, and by id if it is known. Where leaders decide, a broker answers in the place of a controller: what
    is known first of an address counts."""
    by_address: dict[str, tuple[str, int | None]] = {}
    for kind, instance, address in known:
        by_address.setdefault(address, (kind, instance))
    for kind, told in (("controller", described.controllers), ("coordinator", described.coordinators)):
        for each in told:
            before = by_address.get(each.address)
            if before is None or before == (kind, None):
                by_address[each.address] = (kind, each.server_id)
    servers = [(kind, instance, address) for address, (kind, instance) in by_address.items()]
    return sorted(servers, key=lambda each: (_KINDS.index(each[0]), -1 if each[1] is None else each[1]))


def survey(admin: "Admin", servers: Iterable[tuple[str, int | None, str]]) -> list[Surveyed]:
    """Ask each of them, at most 16 at a time, in the order given."""
    from hightide.errors import HightideError

    def ask(server: tuple[str, int | None, str]) -> Surveyed:
        kind, instance, address = server
        try:
            return Surveyed(kind, instance, address, admin.describe_server(address))
        except HightideError as error:
            return Surveyed(kind, instance, address, error=error)

    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="survey") as pool:
        return list(pool.map(ask, servers))
