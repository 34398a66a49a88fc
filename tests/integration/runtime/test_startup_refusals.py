"""A service that cannot start says why in one line and exits; nothing on disk has changed by then.

The programs run as an operator runs them, against the session's ZooKeeper, each test under a chroot of its
own.
"""

import json
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from adversary.control import fingerprint
from adversary.raw_client import RawClient
from grpc_health.v1 import health_pb2
from hightide_broker.settings import BrokerSettings
from hightide_broker.storage import DataDirectory
from hightide_local.certificates import CertificateAuthority
from hightide_local.histories.waiting import wait_until
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.ports import free_port
from hightide_runtime.process.environment import service_environment
from hightide_runtime.znodes.coordination_znode import Coordination, CoordinationZnode
from kazoo.client import KazooClient

pytestmark = pytest.mark.cluster

BROKER = "hightide_broker.main"
CONTROLLER = "hightide_controller.main"
EXIT_S = 60.0
SERVES_S = 60.0


class Service:
    """One service process with its output."""

    def __init__(self, module: str, *arguments: str, environment: dict[str, str] | None = None) -> None:
        self.started_s = time.monotonic()
        self._process = subprocess.Popen(
            [sys.executable, "-m", module, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=service_environment({**os.environ, **(environment or {})}),
            text=True,
        )

    def refusal(self) -> str:
        """Wait until it gives up; its last line, after checking that it is one fit for people."""
        output, _ = self._process.communicate(timeout=EXIT_S)
        lines = output.strip().splitlines()
        assert self._process.returncode not in (0, None), f"it ended well:\n{output}"
        assert self._process.returncode > 0, f"it died of signal {-self._process.returncode}:\n{output}"
        assert "Traceback" not in output, output
        assert lines, "it gave up without a word"
        assert "error: " in lines[-1], output
        return lines[-1]

    def runs(self) -> bool:
        return self._process.poll() is None

    def end(self) -> tuple[int, str]:
        """SIGTERM; its exit code and output."""
        self._process.terminate()
        output, _ = self._process.communicate(timeout=EXIT_S)
        return self._process.returncode, output

    def __enter__(self) -> "Service":
        return self

    def __exit__(self, *_: object) -> None:
        if self.runs():
            self._process.kill()
        if self._process.stdout is not None and not self._process.stdout.closed:
            self._process.communicate(timeout=EXIT_S)


class Place:
    """A chroot, a data directory and a port for the services of one test."""

    def __init__(self, zookeeper: str, root: Path) -> None:
        self.zookeeper, self.root = zookeeper, root
        self.data = root / "data"
        self._services = ExitStack()

    def broker(
        self, *extra: str, broker_id: int = 1, port: int | None = None, data: Path | None = None
    ) -> Service:
        return self._services.enter_context(
            Service(
                BROKER,
                *("--broker-id", str(broker_id), "--listen", f"127.0.0.1:{port or free_port()}"),
                *("--zookeeper", self.zookeeper, "--data-dir", str(data or self.data)),
                *("--zookeeper-session-timeout-ms", "5000", *extra),
            )
        )

    def controller(self, *extra: str, port: int | None = None) -> Service:
        return self._services.enter_context(
            Service(
                CONTROLLER,
                *("--controller-id", "1", "--listen", f"127.0.0.1:{port or free_port()}"),
                *("--zookeeper", self.zookeeper, "--zookeeper-session-timeout-ms", "5000", *extra),
            )
        )

    def coordinated_by_leaders(self) -> None:
        """Another process was here before, and chose."""
        hosts, slash, chroot = self.zookeeper.partition("/")
        operator = KazooClient(hosts=hosts)
        operator.start()
        try:
            content = CoordinationZnode(Coordination.LEADERS).encode()
            operator.create(slash + chroot + CoordinationZnode.path(), content, makepath=True)
        finally:
            operator.stop()
            operator.close()

    def close(self) -> None:
        self._services.close()


@pytest.fixture
def place(zookeeper_hosts: str, tmp_path: Path) -> Iterator[Place]:
    found = Place(zookeeper_hosts, tmp_path)
    yield found
    found.close()


def serves(port: int) -> bool:
    with RawClient(f"127.0.0.1:{port}") as client:
        answer = client.send("/grpc.health.v1.Health/Check", health_pb2.HealthCheckRequest(), timeout_s=5)
    if not answer.ok:
        return False
    status = health_pb2.HealthCheckResponse.FromString(answer.body).status
    return bool(status == health_pb2.HealthCheckResponse.SERVING)


# -- ZooKeeper


def test_without_zookeeper_both_give_up_after_their_bound_and_name_the_address(tmp_path: Path) -> None:
    nowhere = f"127.0.0.1:{free_port()}"
    lonely = Place(nowhere, tmp_path)
    bound = ("--zookeeper-connect-timeout-ms", "1500")
    services = [lonely.broker(*bound), lonely.controller(*bound)]
    for service in services:
        line = service.refusal()
        assert nowhere in line
        waited_s = time.monotonic() - service.started_s
        # Without a bound it would have looked for 30 s.
        assert 1.4 < waited_s < 28, f"it gave up after {waited_s:.1f} s"
    lonely.close()


def test_a_zookeeper_that_comes_within_the_bound_is_found(tmp_path: Path) -> None:
    zookeeper = EmbeddedZooKeeper(tmp_path / "zookeeper")
    early = Place(zookeeper.address, tmp_path)
    broker_port, controller_port = free_port(), free_port()
    services = [early.broker(port=broker_port), early.controller(port=controller_port)]
    try:
        zookeeper.start()
        wait_until("the broker serves", lambda: serves(broker_port), SERVES_S)
        wait_until("the controller serves", lambda: serves(controller_port), SERVES_S)
        assert all(service.runs() for service in services)
    finally:
        early.close()
        zookeeper.stop()


def test_the_certificate_of_another_process_is_refused_before_zookeeper_is_asked(tmp_path: Path) -> None:
    """Its peers would take what it says of itself for a lie, and it would never be in sync."""
    other = CertificateAuthority.create(tmp_path).issue("broker/2", ["127.0.0.1"], tmp_path)
    files = ("--tls-certificate", other.certificate, "--tls-key", other.key, "--tls-ca", other.ca)
    broker = ("--broker-id", "1", "--listen", f"127.0.0.1:{free_port()}", "--data-dir", tmp_path / "data")
    with Service("hightide_broker.main", *map(str, (*broker, *files))) as service:
        refusal = service.refusal()
    assert "broker-2.crt" in refusal
    assert "it has spiffe://hightide/broker/2, and this process is spiffe://hightide/broker/1" in refusal
    assert "hightide certs issue broker/1" in refusal
    assert not (tmp_path / "data").exists()


def test_an_address_of_zookeeper_that_is_none_is_refused(tmp_path: Path) -> None:
    with ExitStack() as stack:
        for text in ("", "localhost:port"):
            nowhere = Place(text, tmp_path)
            stack.callback(nowhere.close)
            nowhere.broker("--zookeeper-connect-timeout-ms", "2000").refusal()


# -- ports


def test_a_port_in_use_is_named(place: Place) -> None:
    with socket.socket() as holder:
        holder.bind(("127.0.0.1", 0))
        holder.listen()
        port = holder.getsockname()[1]
        for service in [place.broker(port=port), place.controller(port=port)]:
            line = service.refusal()
            assert str(port) in line
            assert "--listen" in line


# -- data directories


def test_a_controller_is_refused_in_a_cluster_whose_leaders_decide(place: Place) -> None:
    place.coordinated_by_leaders()
    with place.controller() as service:
        refusal = service.refusal()
    assert "controller 1 does not start: the leaders of this cluster decide for themselves" in refusal


def test_a_broker_that_expects_a_controller_is_refused_there_and_has_touched_nothing(place: Place) -> None:
    place.coordinated_by_leaders()
    refusal = place.broker().refusal()
    assert "broker 1 does not start: the leaders of this cluster decide for themselves" in refusal
    assert "--coordination leaders" in refusal


def test_a_data_directory_of_another_cluster_is_refused_and_left_alone(place: Place) -> None:
    DataDirectory.open(place.data, "the-other-cluster", 1).close()
    before = fingerprint(place.data)
    line = place.broker().refusal()
    assert "the-other-cluster" in line
    assert str(place.data) in line
    assert fingerprint(place.data) == before


def test_a_data_directory_of_another_broker_is_refused_and_left_alone(place: Place) -> None:
    first = place.broker(broker_id=7, port=(port := free_port()))
    wait_until("the broker serves", lambda: serves(port), SERVES_S)
    code, output = first.end()
    assert code == 0, output
    before = fingerprint(place.data)
    line = place.broker(broker_id=8).refusal()
    assert re.search(r"\b7\b", line), line
    assert re.search(r"\b8\b", line), line
    assert fingerprint(place.data) == before


def test_one_of_two_data_directories_of_another_broker_is_refused_naming_both(place: Place) -> None:
    other = place.root / "other"
    first = place.broker(broker_id=7, data=other, port=(port := free_port()))
    wait_until("the broker serves", lambda: serves(port), SERVES_S)
    assert first.end()[0] == 0
    second = place.broker(port=(port := free_port()))
    wait_until("the other broker serves", lambda: serves(port), SERVES_S)
    assert second.end()[0] == 0
    before = fingerprint(place.data), fingerprint(other)
    line = place.broker("--data-dir", str(other)).refusal()
    assert re.search(r"\b7\b", line), line
    assert str(other) in line
    assert f"{place.data} is of" in line
    assert (fingerprint(place.data), fingerprint(other)) == before


def test_a_data_directory_and_a_broker_id_in_use_are_refused_and_the_user_lives_on(place: Place) -> None:
    port = free_port()
    first = place.broker(port=port)
    wait_until("the broker serves", lambda: serves(port), SERVES_S)
    same_directory = place.broker(broker_id=2)
    same_id = place.broker(data=place.root / "other")
    assert str(place.data) in same_directory.refusal()
    assert "broker id 1" in same_id.refusal()
    assert first.runs()
    assert serves(port)


def test_a_data_directory_that_is_a_file_is_refused(place: Place) -> None:
    place.data.write_text("not a directory")
    assert str(place.data) in place.broker().refusal()
    assert place.data.read_text() == "not a directory"


def test_an_identity_that_cannot_be_read_is_refused_and_left_alone(place: Place) -> None:
    brokers = []
    for number, content in enumerate(["", '{"version": 99}']):
        data = place.root / f"data-{number}"
        DataDirectory.open(data, "some-cluster", 1).close()
        (data / "meta.json").write_text(content)
        brokers.append((data, fingerprint(data), place.broker(data=data)))
    for data, before, broker in brokers:
        assert str(data / "meta.json") in broker.refusal()
        assert fingerprint(data) == before


# -- flags


FLAGS: dict[str, list[str]] = {
    "no broker id": ["--listen", "127.0.0.1:1", "--data-dir", "x"],
    "a negative broker id": ["--broker-id", "-1", "--data-dir", "x"],
    "a broker id that is no number": ["--broker-id", "one", "--data-dir", "x"],
    "no port": ["--broker-id", "1", "--listen", "127.0.0.1", "--data-dir", "x"],
    "a port that is none": ["--broker-id", "1", "--listen", "127.0.0.1:70000", "--data-dir", "x"],
    "an unknown flag": ["--broker-id", "1", "--data-dir", "x", "--no-such-flag", "1"],
    "a session timeout of zero": [
        *("--broker-id", "1", "--data-dir", "x", "--zookeeper-session-timeout-ms", "0"),
    ],
}


NAMED = {
    "no broker id": "broker.id",
    "a negative broker id": "broker.id",
    "a broker id that is no number": "broker.id",
    "no port": "listen",
    "a port that is none": "listen",
    "an unknown flag": "no-such-flag",
    "a session timeout of zero": "session.timeout",
}


@pytest.mark.parametrize("name", FLAGS)
def test_a_flag_that_cannot_be_is_refused_by_its_name(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as exit_:
        BrokerSettings.from_command_line(FLAGS[name])
    assert exit_.value.code == 2
    line = capsys.readouterr().err.strip().splitlines()[-1]
    assert line.startswith("hightide-broker: error: ")
    assert re.search(NAMED[name], line), line


def test_what_the_environment_says_is_checked_too(tmp_path: Path) -> None:
    environment = {"HIGHTIDE_BROKER_BROKER_ID": "minus one", "HIGHTIDE_BROKER_DATA_DIR": str(tmp_path / "d")}
    with Service(BROKER, environment=environment) as service:
        assert "broker" in service.refusal()
    assert not (tmp_path / "d").exists()


def test_meta_json_is_what_these_tests_take_it_for(tmp_path: Path) -> None:
    DataDirectory.open(tmp_path / "d", "a-cluster", 3).close()
    meta = json.loads((tmp_path / "d" / "meta.json").read_text())
    assert (meta["cluster_id"], meta["broker_id"]) == ("a-cluster", 3)
