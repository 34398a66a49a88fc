"""host:port, as it stands in flags, znodes and error messages."""

import ipaddress
from dataclasses import dataclass
from typing import Self


@dataclass(frozen=True, slots=True, order=True)
class HostPort:
    """Where a process listens or is reached. IPv6 hosts are written in brackets: [::1]:9092."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Self:
        """Read `host:port`; raises ValueError with a sentence that shows what was given."""
        host, separator, port = text.strip().rpartition(":")
        host = host.removeprefix("[").removesuffix("]")
        if not separator or not host or any(c.isspace() or c in "/," for c in host):
            raise ValueError(f"{text!r} is not host:port, for example 127.0.0.1:9092")
        if not (port.isascii() and port.isdigit() and int(port) <= 65535):
            raise ValueError(f"{text!r} has no port from 0 to 65535 after the colon")
        return cls(host, int(port))

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine reaches it. A name other than localhost may mean any address."""
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return self.host.lower() == "localhost"

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"
