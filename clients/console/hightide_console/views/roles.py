"""Who decides in a cluster, and where decisions are kept: controllers, coordinators, ZooKeeper. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass

from hightide import ClusterDescription
from hightide_cli.cluster.health_report import is_led
from hightide_cli.command_line.sizes import milliseconds_text

from hightide_console.looks import ServerLook, Survey

_ADDRESS_MAX = 200
_NAMES_MAX = 5


@dataclass(frozen=True, slots=True)
class RoleRow:
    """One controller or coordinator, or what is in its place, or ZooKeeper."""

    kind: str
    name: str
    address: str
    state: str
    tone: str


def role_rows(
    cluster: ClusterDescription, survey: Survey | None, servers: Sequence[ServerLook]
) -> tuple[RoleRow, ...]:
    """All of them, those that decide before those that stand by."""
    silent = {each.address for each in servers if each.session_timeout_ms is None}
    rows = [*_controllers(cluster), *_coordinators(cluster, survey)]
    zookeeper = _zookeeper(servers)
    return (
        *(_silent(each) if each.address in silent and each.tone != "bad" else each for each in rows),
        *([zookeeper] if zookeeper is not None else []),
    )


def zookeeper_problem(servers: Sequence[ServerLook]) -> str | None:
    """What is wrong with ZooKeeper, as the processes see it; None if nothing is, or nobody told."""
    told, without = _sessions(servers)
    if not without:
        return None
    if len(without) == len(told):
        return (
            "ZooKeeper does not answer: no process has a session, so no leader is elected and nothing is "
            "changed until it is there again"
        )
    verb = "has" if len(without) == 1 else "have"
    return f"{_names(without)} {verb} no session with ZooKeeper: look into the log of each"


def _controllers(cluster: ClusterDescription) -> list[RoleRow]:
    if is_led(cluster):
        answering = f"broker {cluster.controller_id}, which answered"
        return [RoleRow("no controller", "", answering, "leaders are elected by a race in ZooKeeper", "ok")]
    rows = []
    if cluster.controller_id >= 0:
        state = f"active, epoch {cluster.controller_epoch}"
        rows.append(
            RoleRow("controller", str(cluster.controller_id), cluster.controller_address, state, "ok")
        )
    rows += [
        RoleRow("controller", str(each.server_id), each.address, "standing by", "quiet")
        for each in cluster.controllers
        if each.address != cluster.controller_address
    ]
    return rows


def _coordinators(cluster: ClusterDescription, survey: Survey | None) -> list[RoleRow]:
    rows = []
    active = survey.coordinators if survey else ()
    for shard, address in enumerate(active):
        of = f", shard {shard} of {len(active)}" if len(active) > 1 else ""
        known = next((str(each.server_id) for each in cluster.coordinators if each.address == address), "")
        rows.append(
            RoleRow("coordinator", known, address or "none", f"active{of}", "ok")
            if address is not None
            else RoleRow("coordinator", "", "none", f"missing{of}: its groups rest", "bad")
        )
    rows += [
        RoleRow("coordinator", str(each.server_id), each.address, "standing by", "quiet")
        for each in cluster.coordinators
        if each.address not in active
    ]
    return rows


def _silent(row: RoleRow) -> RoleRow:
    return RoleRow(row.kind, row.name, row.address, f"{row.state}, and does not answer", "warning")


def _zookeeper(servers: Sequence[ServerLook]) -> RoleRow | None:
    told, without = _sessions(servers)
    if not told:
        return None
    addresses = ", ".join(sorted({each.zookeeper for each in told if each.zookeeper}))[:_ADDRESS_MAX]
    if len(without) == len(told):
        return RoleRow("ZooKeeper", "", addresses, "does not answer: no process has a session", "bad")
    if without:
        return RoleRow("ZooKeeper", "", addresses, f"no session of {_names(without)}", "warning")
    timeouts = sorted({each.session_timeout_ms or 0 for each in told})
    lasts = " to ".join(milliseconds_text(each) for each in dict.fromkeys((timeouts[0], timeouts[-1])))
    count = f"{len(told)} sessions" if len(told) > 1 else "1 session"
    return RoleRow("ZooKeeper", "", addresses, f"answers, {count} of {lasts}", "ok")


def _sessions(servers: Sequence[ServerLook]) -> tuple[list[ServerLook], list[ServerLook]]:
    """Those that told of their session, and those of them that have none."""
    told = [each for each in servers if each.session_timeout_ms is not None]
    return told, [each for each in told if each.session_timeout_ms == 0]


def _names(servers: Sequence[ServerLook]) -> str:
    names = [each.name for each in servers]
    more = [f"{len(names) - _NAMES_MAX} more"] if len(names) > _NAMES_MAX else []
    listed = [*names[:_NAMES_MAX], *more]
    return listed[0] if len(listed) == 1 else f"{', '.join(listed[:-1])} and {listed[-1]}"
