"""The examination by `hightide doctor`: asks this machine, ZooKeeper and every server, each for a bounded
time, and has the answers judged. A server that does not answer never delays or hides the others."""

import os
import socket
import subprocess
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Final, TypeVar

from hightide import Admin
from hightide.calls.addresses import bootstrap_addresses
from hightide.errors import HightideError
from hightide.servers import ServerDescription
from hightide.v1.broker_service_pb2 import GetMetadataResponse

from hightide_cli.cluster.health_report import is_led
from hightide_cli.cluster.metadata_probe import MetadataProbe, address_of, coordinators_in
from hightide_cli.cluster.server_survey import Surveyed, survey, with_standbys
from hightide_cli.command_line.connections import credentials_of
from hightide_cli.context.target import Target
from hightide_cli.doctor.address_findings import AddressReading, address_findings
from hightide_cli.doctor.findings import (
    ClockReading,
    DiskReading,
    Finding,
    clock_findings,
    disk_findings,
    fail,
    file_limit_finding,
    java_finding,
    ok,
    proxy_findings,
    session_findings,
    skipped,
    standby_finding,
    version_findings,
    warn,
    zookeeper_findings,
)
from hightide_cli.doctor.zookeeper_probe import ZooKeeperFacts, ZooKeeperProbeError, look_at, servers_in
from hightide_cli.version import client_version

if TYPE_CHECKING:
    from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls

T = TypeVar("T")

_AT_ONCE: Final = 16
_ADDRESSES_MAX: Final = 200
_JAVA_TIMEOUT_S: Final = 10.0
_CLOCKS_TIMEOUT_S: Final = 15.0


def examine(
    target: Target, zookeeper: str | None, timeout_s: float, zookeeper_tls: "ZooKeeperTls | None" = None
) -> list[Finding]:
    """All findings, those of this machine first. Called by `hightide doctor`. Raises InvalidArgumentError if
    the bootstrap address is not an address."""
    addresses = bootstrap_addresses(target.bootstrap)
    findings = [_java(), _file_limit()]
    servers, metadata, found = _cluster(addresses, target, timeout_s)
    limits_ms, told = _zookeeper(zookeeper, timeout_s, zookeeper_tls)
    findings += told + found
    hosts = sorted({each.rpartition(":")[0] for each in (*addresses, *(each.address for each in servers))})
    findings += proxy_findings(os.environ, hosts)
    if metadata is None:
        return findings
    findings += _of_servers(servers, limits_ms, target, timeout_s)
    findings += _disks(addresses, target, timeout_s)
    return findings


def _java() -> Finding:
    try:
        from hightide_local.errors import ClusterError
        from hightide_local.processes.java import find_java
    except ImportError:
        return skipped("java", "the package of local clusters is not installed; clients need no Java")
    try:
        path = str(find_java())
    except ClusterError as error:
        return java_finding(None, None, str(error))
    try:
        run = subprocess.run(
            [path, "-version"], capture_output=True, text=True, timeout=_JAVA_TIMEOUT_S, errors="replace"
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return java_finding(path, None, str(error))
    lines = (run.stderr or run.stdout).splitlines()
    return java_finding(path, lines[0] if lines and run.returncode == 0 else None, "it printed nothing")


def _file_limit() -> Finding:
    try:
        import resource
    except ImportError:
        return skipped("file limit", "this system has none to ask for")
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return file_limit_finding(-1 if soft == resource.RLIM_INFINITY else soft)


def _zookeeper(
    connection: str | None, timeout_s: float, tls: "ZooKeeperTls | None"
) -> tuple[tuple[int, int] | None, list[Finding]]:
    """The session timeouts that ZooKeeper grants, and the findings about it."""
    if connection is None:
        step = "say where it is with --zookeeper HOST:PORT, or in the context"
        return None, [skipped("zookeeper", "its address is not known here", step)]

    def ask(address: str) -> ZooKeeperFacts | ZooKeeperProbeError:
        try:
            return look_at(address, timeout_s, tls)
        except ZooKeeperProbeError as error:
            return error

    with ThreadPoolExecutor(_AT_ONCE) as pool:
        answers = list(pool.map(ask, servers_in(connection)))
    facts = [each for each in answers if isinstance(each, ZooKeeperFacts)]
    judge = warn if facts else fail
    step = "see that it runs and that this machine may reach it"
    found = [judge("zookeeper", str(each), step) for each in answers if isinstance(each, ZooKeeperProbeError)]
    found += zookeeper_findings(
        {each.address: each.latency_average_ms or each.connect_ms for each in facts},
        {each.address: each.mode for each in facts},
        {each.address: each.version for each in facts},
    )
    if not facts:
        return None, found
    least_ms = max(each.session_timeout_min_ms for each in facts)
    most_ms = min(each.session_timeout_max_ms for each in facts)
    message = f"grants session timeouts from {least_ms} to {most_ms} ms: a tick is {least_ms // 2} ms or less"
    return (least_ms, most_ms), [*found, ok("zookeeper", message)]


def _cluster(
    addresses: Sequence[str], target: Target, timeout_s: float
) -> tuple[list[Surveyed], GetMetadataResponse | None, list[Finding]]:
    """The answers of the servers, the cluster as a broker knows it, and the findings on the way."""
    with MetadataProbe(round(timeout_s * 1000), credentials_of(target.files)) as probe:

        def ask(address: str) -> GetMetadataResponse | HightideError:
            try:
                return probe.ask(address)
            except HightideError as error:
                return error

        with ThreadPoolExecutor(_AT_ONCE) as pool:
            asked = dict(zip(addresses, pool.map(ask, addresses), strict=True))
        told = {address: each for address, each in asked.items() if isinstance(each, GetMetadataResponse)}
        silent = {address: each for address, each in asked.items() if isinstance(each, HightideError)}
        judge = warn if told else fail
        step = f"see that brokers run there; the address is {target.origin}"
        found = [judge("bootstrap", str(error), step) for error in silent.values()]
        if not told:
            return [], None, found
        metadata = next(iter(told.values()))
        if not silent:
            found.append(ok("bootstrap", f"{len(told)} of {len(addresses)} addresses answer"))
        found += _same_cluster(told)
        if not metadata.HasField("controller"):
            step = "start `hightide-controller`, or look into the log of the one that should run"
            found.append(fail("controller", "no controller is active", step))
        known = _servers_in(metadata)
        with Admin(**target.client_arguments(), timeout_ms=round(timeout_s * 1000)) as admin:
            if metadata.HasField("controller"):
                known, finding = _with_standbys(admin, known)
                found.append(finding)
            servers = survey(admin, known)
        with ThreadPoolExecutor(_AT_ONCE) as pool:
            readings = list(pool.map(lambda each: _address_reading(each, ask, timeout_s), servers))
    hosts = [each.rpartition(":")[0] for each in addresses]
    return servers, metadata, found + address_findings(readings, metadata.cluster_id, hosts)


def _same_cluster(told: dict[str, GetMetadataResponse]) -> list[Finding]:
    ids = sorted({each.cluster_id for each in told.values()})
    if len(ids) == 1:
        return []
    where = ", ".join(f"{address} is of {each.cluster_id}" for address, each in told.items())
    return [
        fail("bootstrap", f"the addresses belong to {len(ids)} clusters: {where}", "name one cluster only")
    ]


def _servers_in(metadata: GetMetadataResponse) -> list[tuple[str, int | None, str]]:
    known: list[tuple[str, int | None, str]] = [
        ("broker", each.id, address) for each in metadata.brokers if (address := address_of(each))
    ]
    controller = address_of(metadata.controller) if metadata.HasField("controller") else None
    # Where leaders decide, a broker answers in the place of a controller.
    if controller is not None and controller not in {address for _, _, address in known}:
        known.append(("controller", metadata.controller.id, controller))
    coordinators = dict.fromkeys(each for each in coordinators_in(metadata) if each is not None)
    known += [("coordinator", None, each) for each in coordinators]
    return known[:_ADDRESSES_MAX]


def _with_standbys(
    admin: Admin, known: list[tuple[str, int | None, str]]
) -> tuple[list[tuple[str, int | None, str]], Finding]:
    """All servers, including those on standby, which no broker names: the controller knows them."""
    try:
        described = admin.describe_cluster()
    except HightideError as error:
        return known, skipped("standbys", f"the controller does not tell who stands by: {error}")
    everybody = with_standbys(known, described)[:_ADDRESSES_MAX]
    if is_led(described):
        return everybody, skipped("standbys", "no controller decides here, so none stands by")
    active = (1, len({address for kind, _, address in known if kind == "coordinator"}))
    return everybody, standby_finding((len(described.controllers), len(described.coordinators)), active)


def _address_reading(
    server: Surveyed, ask: Callable[[str], GetMetadataResponse | HightideError], timeout_s: float
) -> AddressReading:
    host = server.address.rpartition(":")[0]
    resolved = within(lambda: _resolved(host), timeout_s) or ()
    error = None if server.error is None else str(server.error)
    said = server.description
    expected = server.instance if server.instance is not None else said.instance if said else ""
    name = f"{server.kind} {expected}".strip() if expected != "" else f"the {server.kind}"
    cluster_id = None
    if server.kind == "broker" and error is None:
        answer = ask(server.address)
        cluster_id = answer.cluster_id if isinstance(answer, GetMetadataResponse) else None
    calls_itself = f"{said.service} {said.instance}" if said is not None else None
    return AddressReading(name, server.address, resolved, error, cluster_id, calls_itself)


def _resolved(host: str) -> tuple[str, ...]:
    try:
        found = socket.getaddrinfo(host.strip("[]"), None, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return ()
    return tuple(dict.fromkeys(str(each[4][0]) for each in found))


def within(ask: Callable[[], T], timeout_s: float) -> T | None:
    """The result of `ask`, or None if it takes longer: a resolver has no timeout of its own."""
    answers: list[T] = []
    thread = threading.Thread(target=lambda: answers.append(ask()), daemon=True)
    thread.start()
    thread.join(timeout_s)
    return answers[0] if answers else None


def _of_servers(
    servers: Sequence[Surveyed], limits_ms: tuple[int, int] | None, target: Target, timeout_s: float
) -> list[Finding]:
    """Clocks, versions and sessions of those that answered."""
    answered = [(each.name, each.description) for each in servers if each.description is not None]
    granted_ms = {name: said.zookeeper_session_timeout_ms for name, said in answered}
    versions = {name: said.version for name, said in answered}
    return [
        *session_findings(granted_ms, limits_ms),
        *_clocks(servers, target, timeout_s),
        *version_findings(client_version(), versions),
    ]


def _clocks(servers: Sequence[Surveyed], target: Target, timeout_s: float) -> list[Finding]:
    """Ask for the clocks again, one by one: many calls at once wait for each other, which would count as
    round trip."""
    readings = []
    give_up_s = time.monotonic() + _CLOCKS_TIMEOUT_S
    for each in servers:
        if each.description is None:
            continue
        if time.monotonic() > give_up_s:
            break
        try:
            with _admin_at([each.address], target, timeout_s) as admin:
                readings.append(clock_reading(each.name, partial(admin.describe_server, each.address)))
        except HightideError:
            continue
    return clock_findings(readings)


def clock_reading(
    name: str, describe: Callable[[], ServerDescription], now_s: Callable[[], float] = time.time
) -> ClockReading:
    """The time of a server's clock at some moment between the question and the answer. All of that time
    counts as round trip: if this process is paused for a second after the answer, the clock must not seem a
    second behind."""
    asked_ms = now_s() * 1000
    clock_ms = describe().clock_ms
    took_ms = now_s() * 1000 - asked_ms
    return ClockReading(name, clock_ms - (asked_ms + took_ms / 2), took_ms)


def _admin_at(addresses: Sequence[str], target: Target, timeout_s: float) -> Admin:
    """A client of these servers, with the credentials for the cluster."""
    arguments = target.files.arguments()
    arguments["bootstrap"] = ",".join(addresses)
    return Admin(**arguments, timeout_ms=round(timeout_s * 1000))


def _disks(addresses: Sequence[str], target: Target, timeout_s: float) -> list[Finding]:
    try:
        with _admin_at(addresses, target, timeout_s) as admin:
            directories = admin.describe_log_directories()
    except HightideError as error:
        return [skipped("disks", f"the log directories of brokers are not known: {error}")]
    readings = [
        DiskReading(f"{each.path} of broker {each.broker_id}", each.free_bytes, each.total_bytes, each.failed)
        for each in directories
        if each.error is None
    ]
    return disk_findings(readings)
