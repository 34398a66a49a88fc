"""docs/zookeeper-security.md, carried out: an open, plaintext cluster gets ACLs and TLS while it is in use.

The flags, the commands and the lines of zoo.cfg are taken from the page. Only paths and addresses differ.
"""

from __future__ import annotations

import json
import re
import shlex
import sys
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

import pytest
from e2e.command_line import hightide, succeed
from hightide_local.certificates import CertificateAuthority
from hightide_local.cluster import LocalCluster
from hightide_local.histories.drill import FaultDrill
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.ports import HOST
from integration.zookeeper import service_with_flags
from kazoo.client import KazooClient
from kazoo.exceptions import NoAuthError

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

PAGE = Path(__file__).resolve().parents[3] / "docs" / "zookeeper-security.md"
BLOCK = re.compile(r"^```text\n(.*?)^```", re.MULTILINE | re.DOTALL)
#: What a block of the page is, by how it begins.
KINDS = {"hightide:": "credentials", "--": "flags", "hightide ": "command", "secureClientPort": "zoo.cfg"}
PATIENCE_S = 60.0
CHROOT = "/hightide"
CREDENTIALS = "/etc/hightide/zookeeper.credentials"


@dataclass
class Place:
    """The machines of the page, in one directory, and a ZooKeeper that can be configured anew."""

    root: Path
    zookeeper: EmbeddedZooKeeper
    cluster: LocalCluster
    flags: Path
    drill: FaultDrill | None = None
    zookeeper_hosts: str = ""

    def translated(self, text: str) -> str:
        """With the paths and addresses of this place for those of the page."""
        return text.replace("/etc/hightide", str(self.root)).replace("zk1:2182", self.zookeeper_hosts)

    def write_credentials(self, content: str) -> None:
        """The file that the page shows first."""
        file = Path(self.translated(CREDENTIALS))
        file.write_text(content)
        file.chmod(0o600)

    def restart_all(self, flags: str) -> None:
        """With these flags, one process after the other, standbys and all."""
        own = "" if "--zookeeper " in flags else f"--zookeeper {self.zookeeper_hosts} "
        self.flags.write_text(own + self.translated(flags))
        assert self.drill is not None
        for name in self.cluster.names[1:]:
            self.cluster.restart(name)
            self.drill.wait_for_isr(3)
            self.drill.wait_for_progress(10)

    def command(self, line: str) -> str:
        """An operator's command."""
        words = shlex.split(self.translated(line))[1:]
        return succeed(self.cluster, *words, "--zookeeper", self.zookeeper_hosts, "-o", "json").decode()

    def restart_zookeeper(self) -> None:
        """With a port for TLS beside the plaintext one."""
        authority = CertificateAuthority.create(self.root / "ca")
        certificate = authority.issue("zookeeper/1", [HOST], self.root / "zookeeper-certificate")
        authority.issue("broker/1", [HOST], self.root)
        port = int(self.zookeeper.address.rpartition(":")[2])
        self.zookeeper.stop()
        self.zookeeper = EmbeddedZooKeeper(self.root / "zookeeper", port, certificate=certificate)
        self.zookeeper.start()
        self.zookeeper_hosts = self.zookeeper.tls_address + CHROOT

    def configuration(self) -> set[str]:
        """The names of the settings in its zoo.cfg."""
        lines = (self.root / "zookeeper" / "zoo.cfg").read_text().splitlines()
        return {line.partition("=")[0] for line in lines}


@pytest.fixture
def place(tmp_path: Path) -> Iterator[Place]:
    flags = tmp_path / "flags"

    def program(module: str) -> tuple[str, ...]:
        return sys.executable, service_with_flags.__file__, module, str(flags)

    zookeeper = EmbeddedZooKeeper(tmp_path / "zookeeper")
    zookeeper.start()
    flags.write_text(f"--zookeeper {zookeeper.address}{CHROOT}")
    cluster = LocalCluster(
        tmp_path / "cluster",
        coordinators=1,
        broker_program=program("hightide_broker.main"),
        controller_program=program("hightide_controller.main"),
        coordinator_program=program("hightide_coordinator.main"),
    )
    found = Place(tmp_path, zookeeper, cluster, flags, zookeeper_hosts=zookeeper.address + CHROOT)
    try:
        with cluster:
            yield found
    finally:
        found.zookeeper.stop()


def a_stranger_may(place: Place) -> set[str]:
    """What somebody without credentials can do at the plaintext port."""
    epoch = f"{CHROOT}/controller_epoch"
    client = KazooClient(place.zookeeper.address, timeout=10.0)
    client.start(PATIENCE_S)
    attempts: dict[str, Callable[[], object]] = {
        "read": lambda: client.get(epoch),
        "write": lambda: client.set(epoch, client.get(epoch)[0]),
        "create": lambda: client.create(f"{CHROOT}/admin/delete_topics/migration", b""),
    }
    allowed = set()
    try:
        for what, attempt in attempts.items():
            with suppress(NoAuthError):
                attempt()
                allowed.add(what)
    finally:
        client.stop()
        client.close()
    return allowed


def kind_of(block: str) -> str:
    """What a block of the page is for; empty if it is no step of the migration."""
    return next((kind for begin, kind in KINDS.items() if block.startswith(begin)), "")


def test_the_page_takes_an_open_cluster_to_acls_and_tls_and_no_acknowledged_record_is_lost(
    place: Place,
) -> None:
    steps = [(kind, block) for block in BLOCK.findall(PAGE.read_text()) if (kind := kind_of(block))]
    assert [kind for kind, _ in steps] == (
        ["credentials", "flags", "command", "flags", "command", "zoo.cfg", "flags"]
    )
    said: list[dict[str, object]] = []
    with FaultDrill(place.cluster, "migration") as drill:
        place.drill = drill
        for kind, content in steps:
            if kind == "credentials":
                place.write_credentials(content)
                refuses_to_lock_out(place)
            elif kind == "flags":
                place.restart_all(content)
            elif kind == "command":
                said += [json.loads(place.command(line)) for line in content.splitlines()]
            else:
                place.restart_zookeeper()
                assert {line.partition("=")[0] for line in content.splitlines()} <= place.configuration()
        assert a_stranger_may(place) == set()
        # Elections, ISR changes and a new session work as before.
        leader = drill.leader()
        drill.kill(leader)
        drill.wait_for_other_leaders(leader)
        drill.restart(leader)
        drill.wait_for_isr(3)
    dry, closed, closed_again, last = said
    assert (dry["executed"], closed["executed"]) == (False, True)
    assert dry["open"] == dry["to_change"] == dry["znodes"]
    assert closed["locked_out"] == closed_again["locked_out"] == []
    assert (last["open"], last["to_change"]) == (0, 0)


def refuses_to_lock_out(place: Place) -> None:
    """Before any process shows the credentials, the znodes cannot be closed."""
    file = place.translated(CREDENTIALS)
    secure = ("zk", "secure", "--zookeeper-credentials-file", file, "--execute")
    refused = hightide(place.cluster, *secure, "--zookeeper", place.zookeeper_hosts)
    assert refused.returncode == 1
    said = refused.stderr.decode()
    assert "processes that run would be locked out" in said
    assert "/brokers/ids/1" in said
    assert "nothing was changed" in said
