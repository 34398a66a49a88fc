"""Cuts and heals the links between the processes of a cluster.

`hightide_local.processes.network_process` does the work, in a process of its own.
"""

import json
import subprocess
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

from hightide_local.errors import ClusterError
from hightide_local.processes.ports import free_port

#: The name of all other processes: the test itself, and those that it starts.
CLIENTS: Final = "clients"
_PROGRAM: Final = (sys.executable, "-m", "hightide_local.processes.network_process")
_END_S: Final = 5.0


class Network:
    """The links of one cluster. A partitionable `LocalCluster` has one. Methods raise ClusterError."""

    def __init__(self, ports: Mapping[str, int], log_path: Path) -> None:
        """`ports` are the ports at which others reach each process, by name. The process itself listens on
        another port, which is chosen here."""
        taken = list(ports.values())
        self._ports = dict(ports)
        self._targets: dict[str, int] = {}
        for name in ports:
            self._targets[name] = free_port([*taken, *self._targets.values()])
        self._log_path = log_path
        self._process: subprocess.Popen[str] | None = None
        self._cuts: set[tuple[str, str]] = set()
        self._refusing: set[str] = set()

    @property
    def is_whole(self) -> bool:
        """Whether no link is cut and no port refuses connections."""
        return not self._cuts and not self._refusing

    def target_port(self, name: str) -> int:
        """The port on which a process itself listens."""
        return self._targets[name]

    def start(self) -> None:
        """Start the process of the network, unless it runs."""
        if self._process is not None:
            return
        self._log_path.parent.mkdir(parents=True, exist_ok=True)
        with self._log_path.open("ab") as log:
            # It ends with its standard input, and so with this process in any case.
            self._process = subprocess.Popen(
                _PROGRAM,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=log,
                text=True,
                start_new_session=True,
            )
        self._order(members={name: [port, self._targets[name]] for name, port in self._ports.items()})

    def note_pid(self, name: str, pid: int) -> None:
        """Tell the network the pid of the process with this name, by which it recognizes its connections."""
        self._order(pids={name: pid})

    def cut(self, sources: Iterable[str], targets: Iterable[str], *, one_way: bool) -> None:
        """Cut the links from each source to each target, and back unless `one_way`. They are cut when this
        returns."""
        others = tuple(targets)
        cuts = {(source, target) for source in sources for target in others if source != target}
        self._cuts |= cuts if one_way else cuts | {(target, source) for source, target in cuts}
        self._order(cuts=sorted(self._cuts))

    def refuse(self, names: Iterable[str]) -> None:
        """Let the ports of these processes refuse connections, and end their connections. Both is done when
        this returns."""
        self._refusing |= set(names)
        self._order(refusing=sorted(self._refusing))

    def heal(self) -> None:
        """Heal all links, so that waiting bytes arrive, and open all ports."""
        if self._cuts:
            self._cuts.clear()
            self._order(cuts=[])
        if self._refusing:
            self._refusing.clear()
            self._order(refusing=[])

    def stop(self) -> None:
        """End the process of the network, and so all connections."""
        process, self._process = self._process, None
        self._cuts.clear()
        self._refusing.clear()
        if process is None:
            return
        with process:
            assert process.stdin is not None
            process.stdin.close()
            try:
                process.wait(_END_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def _order(self, **order: object) -> None:
        process = self._process
        assert process is not None, "the network is not started"
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(json.dumps(order) + "\n")
            process.stdin.flush()
            answer = process.stdout.readline()
        except OSError:
            answer = ""
        if not answer:
            raise ClusterError(f"the network of the cluster has ended; its log is {self._log_path}")
