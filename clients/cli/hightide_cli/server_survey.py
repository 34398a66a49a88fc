"""Asking many servers who they are, all at once: those that do not answer cost one wait and no more."""

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


@dataclass(frozen=True, slots=True)
class Surveyed:
    """One server as the cluster knows it, and what it says of itself, or why it does not."""

    kind: str
    instance: int | None
    address: str
    description: "ServerDescription | None" = None
    error: "HightideError | None" = None

    @property
    def name(self) -> str:
        """As people call it: broker 2, or the address where its id is not known."""
        if self.description is not None:
            return f"{self.description.service} {self.description.instance}"
        return f"{self.kind} at {self.address}" if self.instance is None else f"{self.kind} {self.instance}"


def servers_of(
    described: "ClusterDescription", coordinators: Iterable[str | None]
) -> list[tuple[str, int | None, str]]:
    """The kind, id and address of every server that clients can know of: stand-by controllers and
    coordinators are known to ZooKeeper alone."""
    known: list[tuple[str, int | None, str]] = [
        ("controller", described.controller_id, described.controller_address)
    ]
    known += [("coordinator", None, each) for each in dict.fromkeys(coordinators) if each is not None]
    known += [
        ("broker", each.broker_id, each.address) for each in described.brokers if each.address is not None
    ]
    return known[:_SERVERS_MAX]


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
