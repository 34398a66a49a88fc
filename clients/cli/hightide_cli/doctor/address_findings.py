"""Whether clients on this machine can use the addresses that servers advertise. Pure."""

import ipaddress
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from hightide_cli.doctor.findings import Finding, fail, ok, skipped

_CHECK: Final = "advertised addresses"
_EVERYWHERE: Final = frozenset({"0.0.0.0", "::", "[::]"})
# Containers most often get this wrong: a broker is reached at one address and answers with another one, which
# only its neighbours can use.
_LISTENERS: Final = (
    "start it with --advertise HOST:PORT that clients reach too, or give it a second listener for them "
    "(--external-listen, --external-advertise) and use that one as --bootstrap"
)


@dataclass(frozen=True, slots=True)
class AddressReading:
    """The result of trying one advertised address. `addresses` is what its host resolves to, or empty;
    `error` says why no server answers; `cluster_id` and `calls_itself` are from the server that answered, if
    it sent them."""

    name: str
    address: str
    addresses: tuple[str, ...] = ()
    error: str | None = None
    cluster_id: str | None = None
    calls_itself: str | None = None

    @property
    def host(self) -> str:
        """The address without the port."""
        return self.address.rpartition(":")[0]


def address_findings(
    readings: Sequence[AddressReading], cluster_id: str, bootstrap_hosts: Sequence[str]
) -> list[Finding]:
    """Judge the addresses of all servers that the cluster knows."""
    if not readings:
        return [skipped(_CHECK, "no broker tells of any")]
    found = [
        each for reading in readings if (each := _fault(reading, cluster_id, bootstrap_hosts)) is not None
    ]
    if found:
        return found
    return [ok(_CHECK, f"all {len(readings)} resolve, answer, and are of this cluster")]


def _fault(reading: AddressReading, cluster_id: str, bootstrap_hosts: Sequence[str]) -> Finding | None:
    who = f"{reading.name} advertises {reading.address}"
    if reading.host in _EVERYWHERE:
        return fail(_CHECK, f"{who}, which is no address that anybody can connect to", _LISTENERS)
    if not reading.addresses:
        return fail(_CHECK, f"{who}, and that name means nothing on this machine", _LISTENERS)
    is_of_here = all(_is_loopback(each) for each in reading.addresses)
    if is_of_here and not any(_is_loopback(host) or host == "localhost" for host in bootstrap_hosts):
        named = ", ".join(bootstrap_hosts[:3])
        return fail(_CHECK, f"{who}, which is this machine, and it was asked for at {named}", _LISTENERS)
    if reading.error is not None:
        step = f"see that {reading.name} runs, and that no firewall is between; else {_LISTENERS}"
        return fail(_CHECK, f"{who}, where nobody answers: {reading.error}", step)
    if reading.cluster_id is not None and reading.cluster_id != cluster_id:
        step = "give every cluster ports of its own; see what runs at that address"
        return fail(_CHECK, f"{who}, where cluster {reading.cluster_id} answers, not {cluster_id}", step)
    if reading.calls_itself is not None and reading.calls_itself != reading.name:
        return fail(_CHECK, f"{who}, where {reading.calls_itself} answers", "give each its own --advertise")
    return None


def _is_loopback(text: str) -> bool:
    try:
        return ipaddress.ip_address(text.strip("[]")).is_loopback
    except ValueError:
        return False
