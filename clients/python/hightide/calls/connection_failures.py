"""The reason why a connection could not be made, extracted from gRPC's text. Pure.

gRPC names the resolved address again, and each of its own layers. Of `failed to connect to all addresses;
last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote host: connect: Connection refused (111)`
only the end is new to the reader.
"""

import re
from typing import Final

_LAST_ERROR: Final = re.compile(r"^.*\blast error: (?:[A-Z_]+: )?", re.DOTALL)
_RESOLVED: Final = re.compile(r"^(?:ipv4|ipv6):(?P<address>(?:\S+):\d+): ")
_NOT_CONNECTED: Final = "failed to connect to all addresses"
_NOBODY_LISTENS: Final = "Failed to connect to remote host"
_LAYERS: Final = re.compile(r"^(?:Failed to connect to remote host: |connect: )+")
_NOT_RESOLVED: Final = re.compile(r"^DNS resolution failed for .*?: (?P<reason>.*)$", re.DOTALL)


def connection_failure(details: str, address: str) -> str:
    """The reason alone. The resolved address precedes it, unless that is `address` itself. A text of unknown
    form comes back as it is."""
    text = _LAST_ERROR.sub("", details.strip())
    unknown_name = _NOT_RESOLVED.match(text)
    if unknown_name is not None:
        return f"its name cannot be resolved ({unknown_name['reason'].rpartition(': ')[2]})"
    resolved = _RESOLVED.match(text)
    if resolved is None:
        return _LAYERS.sub("", text) or "gRPC gives no reason"
    reason = _LAYERS.sub("", text[resolved.end() :])
    where = resolved["address"].replace("%5B", "[").replace("%5D", "]")
    return reason if where == address else f"{reason}, at {where}"


def is_of_a_handshake(details: str) -> bool:
    """Whether somebody listens at the address, and no connection was made nevertheless. Then TLS may be the
    reason: it is refused, or only one side uses it."""
    return _NOT_CONNECTED in details and _NOBODY_LISTENS not in details
