"""The ports of Spark that pages show, and those that a test takes instead."""

import re
from typing import Final

from hightide_local.processes.ports import free_port

_SHOWN: Final = re.compile(r"\b(?:7077|8080|15002)\b")


class ShownPorts:
    """Each port that a page shows is another one, which is free, wherever the page shows it."""

    def __init__(self) -> None:
        self._ports: dict[str, int] = {}

    def substitute(self, text: str) -> str:
        """The text with the ports that are taken."""
        return _SHOWN.sub(lambda shown: str(self._port(shown[0])), text)

    def _port(self, shown: str) -> int:
        if shown not in self._ports:
            self._ports[shown] = free_port(list(self._ports.values()))
        return self._ports[shown]
