"""Finds the process from which a connection on this machine comes."""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Final

import psutil

_TABLES: Final = (Path("/proc/net/tcp"), Path("/proc/net/tcp6"))


def owners_of(ports: Iterable[int], pids: Mapping[str, int]) -> dict[int, str]:
    """Return the name of the process that has a connection with each of these local ports. `pids` are the
    processes by name. Ports of other processes are left out.

    `network_process` calls it when a link is cut, in a thread, since it reads the system's tables of sockets.
    It reads them once for all ports.
    """
    wanted = frozenset(ports)
    return _by_proc(wanted, pids) if _TABLES[0].exists() else _by_psutil(wanted, pids)


def _by_proc(ports: frozenset[int], pids: Mapping[str, int]) -> dict[int, str]:
    port_of_inode = {}
    for table in _TABLES:
        if not table.exists():
            continue
        for line in table.read_bytes().splitlines()[1:]:
            # Columns: sl local_address rem_address st queues tr:tm retrnsmt uid timeout inode; ports in hex.
            fields = line.split()
            port = int(fields[1].rpartition(b":")[2], 16)
            if port in ports:
                port_of_inode[f"socket:[{fields[9].decode()}]"] = port
    found: dict[int, str] = {}
    for name, pid in pids.items():
        try:
            descriptors = list(os.scandir(f"/proc/{pid}/fd"))
        except OSError:
            continue  # It has ended.
        for descriptor in descriptors:
            try:
                port_found = port_of_inode.get(os.readlink(descriptor.path))
            except OSError:
                continue  # It was closed meanwhile.
            if port_found is not None:
                found[port_found] = name
    return found


def _by_psutil(ports: frozenset[int], pids: Mapping[str, int]) -> dict[int, str]:
    found: dict[int, str] = {}
    for name, pid in pids.items():
        try:
            connections = psutil.Process(pid).net_connections("tcp")
        except psutil.Error:
            continue  # It has ended.
        found.update(
            {each.laddr.port: name for each in connections if each.laddr and each.laddr.port in ports}
        )
    return found
