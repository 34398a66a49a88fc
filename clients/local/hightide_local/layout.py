"""The file cluster.json of a cluster's directory: the ports and processes of the cluster."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from hightide_runtime.znodes.coordination_znode import Coordination

from hightide_local.errors import ClusterError
from hightide_local.processes.ports import free_port, is_free

_VERSION = 1
ZOOKEEPER = "zookeeper"


@dataclass(frozen=True, slots=True)
class FirstPorts:
    """The ports to prefer if they are free, for the first process of each kind. `dev up` prefers those that
    clients try by default."""

    zookeeper: int | None = None
    broker: int | None = None
    controller: int | None = None
    coordinator: int | None = None


@dataclass(slots=True)
class ClusterLayout:
    """The ports and processes of one cluster. LocalCluster keeps it, and saves it after each change."""

    directory: Path
    zookeeper_port: int
    brokers: dict[int, int]
    controllers: dict[int, int]
    #: The pid and the creation time of each process of a detached cluster, by name.
    processes: dict[str, tuple[int, float]] = field(default_factory=dict)
    coordinators: dict[int, int] = field(default_factory=dict)
    #: Whether its processes use TLS.
    tls: bool = False

    @classmethod
    def load(cls, directory: Path) -> Self | None:
        """Read cluster.json. Returns None if there is none. Raises ClusterError if `save` did not write
        it."""
        path = directory / "cluster.json"
        try:
            content = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except ValueError as error:
            raise ClusterError(f"{path} is damaged ({error}); delete {directory} to begin anew") from None
        try:
            if content["version"] != _VERSION:
                raise ClusterError(f"{path} is of version {content['version']}, not {_VERSION}; delete it")
            return cls(
                directory,
                int(content["zookeeper_port"]),
                _by_id(content["brokers"]),
                _by_id(content["controllers"]),
                {name: (int(pid), float(made)) for name, (pid, made) in content["processes"].items()},
                # Clusters that were made before there were coordinators, or TLS, have none.
                _by_id(content.get("coordinators", {})),
                bool(content.get("tls", False)),
            )
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ClusterError(f"{path} is damaged ({error!r}); delete {directory} to begin anew") from None

    @classmethod
    def of(
        cls, directory: Path, brokers: int, controllers: int, first: FirstPorts, coordinators: int = 0
    ) -> Self:
        """The layout of the directory with these numbers of processes of each kind. Ports of an earlier
        layout are kept, others are chosen. Raises ClusterError."""
        old = cls.load(directory)
        layout = (
            cls(directory, old.zookeeper_port, {}, {}, old.processes) if old else cls(directory, 0, {}, {})
        )
        if not layout.zookeeper_port:
            layout.zookeeper_port = free_port(preferred=first.zookeeper)
        for chosen, known, count, first_port in (
            (layout.brokers, old.brokers if old else {}, brokers, first.broker),
            (layout.controllers, old.controllers if old else {}, controllers, first.controller),
            (layout.coordinators, old.coordinators if old else {}, coordinators, first.coordinator),
        ):
            for number in range(1, count + 1):
                preferred = first_port + number - 1 if first_port else None
                chosen[number] = known.get(number) or free_port(layout.ports, preferred)
        return layout

    @property
    def ports(self) -> list[int]:
        """All ports of this cluster."""
        return [
            self.zookeeper_port,
            *self.brokers.values(),
            *self.controllers.values(),
            *self.coordinators.values(),
        ]

    @property
    def names(self) -> list[str]:
        """The names of the processes, ZooKeeper first."""
        return [
            ZOOKEEPER,
            *(f"controller-{number}" for number in self.controllers),
            *(f"coordinator-{number}" for number in self.coordinators),
            *(f"broker-{number}" for number in self.brokers),
        ]

    @property
    def coordination(self) -> Coordination:
        """What decides who leads: the controllers, if there are any."""
        return Coordination.CONTROLLER if self.controllers else Coordination.LEADERS

    @property
    def deciders(self) -> list[str]:
        """The names of the processes that clients ask about topics."""
        kind = "controller-" if self.controllers else "broker-"
        return [name for name in self.names if name.startswith(kind)]

    def port_of(self, name: str) -> int:
        """The port of a process. Raises ClusterError if there is no process with this name."""
        kind, _, number = name.partition("-")
        ports = self._ports_of(kind)
        if name == ZOOKEEPER:
            return self.zookeeper_port
        if not number.isdigit() or int(number) not in ports:
            raise ClusterError(f"there is no process {name!r}; there are {', '.join(self.names)}")
        return ports[int(number)]

    def replace_taken_ports(self, stopped: list[str]) -> None:
        """Choose new ports for the stopped processes whose ports another program has taken."""
        for name in stopped:
            if is_free(self.port_of(name)):
                continue
            port = free_port(self.ports)
            if name == ZOOKEEPER:
                self.zookeeper_port = port
            else:
                kind, _, number = name.partition("-")
                self._ports_of(kind)[int(number)] = port

    def _ports_of(self, kind: str) -> dict[int, int]:
        ports = {"broker": self.brokers, "controller": self.controllers, "coordinator": self.coordinators}
        return ports.get(kind, {})

    def save(self) -> None:
        """Write cluster.json atomically: after a crash it has the old or the new content."""
        content = {
            "version": _VERSION,
            "zookeeper_port": self.zookeeper_port,
            "brokers": self.brokers,
            "controllers": self.controllers,
            "coordinators": self.coordinators,
            "processes": self.processes,
            "tls": self.tls,
        }
        path = self.directory / "cluster.json"
        temporary = path.with_suffix(".tmp")
        temporary.write_text(json.dumps(content, indent=2) + "\n")
        os.replace(temporary, path)


def controllers_wanted(
    brokers: int, controllers: int | None, coordinators: int, coordination: Coordination
) -> int:
    """How many controllers a cluster has; None: as many as is usual. Raises ClusterError for numbers of
    processes that make no cluster."""
    is_led = coordination is Coordination.LEADERS
    if controllers is None:
        controllers = 0 if is_led else 2
    if brokers < 1 or coordinators < 0 or (not is_led and controllers < 1):
        raise ClusterError(f"a cluster needs a broker and a controller, not {brokers} and {controllers}")
    if is_led and controllers:
        raise ClusterError(f"where leaders decide, there is no controller, and {controllers} are asked for")
    return controllers


def _by_id(ports: Mapping[str, Any]) -> dict[int, int]:
    return {int(number): int(port) for number, port in ports.items()}
