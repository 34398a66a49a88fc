"""The addresses that a client begins with: bootstrap."""

import os
from collections.abc import Sequence
from typing import Final

from hightide.errors import InvalidArgumentError

BOOTSTRAP_VARIABLE: Final = "HIGHTIDE_BOOTSTRAP"
DEFAULT_BOOTSTRAP: Final = "127.0.0.1:9092"


def bootstrap_addresses(bootstrap: str | Sequence[str] | None) -> tuple[str, ...]:
    """The addresses to begin with: the argument, else $HIGHTIDE_BOOTSTRAP, else 127.0.0.1:9092. A string may
    hold several, separated by commas. Called once by every client. Raises InvalidArgumentError."""
    if bootstrap is None:
        bootstrap = os.environ.get(BOOTSTRAP_VARIABLE) or DEFAULT_BOOTSTRAP
    parts = bootstrap.split(",") if isinstance(bootstrap, str) else list(bootstrap)
    addresses = tuple(dict.fromkeys(_checked(part.strip()) for part in parts if part.strip()))
    if not addresses:
        raise InvalidArgumentError(f"bootstrap {bootstrap!r} names no address; give host:port")
    return addresses


def _checked(address: str) -> str:
    host, _, port = address.rpartition(":")
    if not host or not port.isdigit() or not 0 < int(port) < 65536:
        raise InvalidArgumentError(f"the address {address!r} is not host:port, such as {DEFAULT_BOOTSTRAP}")
    return address
