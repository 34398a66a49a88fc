"""Pinned jars are downloaded from a repository once, and nothing else is taken for them."""

import hashlib
import re
import socket
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest
from hightide_local.errors import ClusterError, RepositoryError
from hightide_local.jars.pinned_jars import PinnedJar, PinnedJars, jars_in
from hightide_local.jars.zookeeper_jars import zookeeper_class_path
from hightide_local.processes.ports import HOST

LOG, SERVER = b"a jar" * 1_000, b"another jar" * 10_000
PLACES = {
    "/maven2/org/log/log/1.0/log-1.0.jar": LOG,
    "/maven2/org/log/log-server/1.0/log-server-1.0.jar": SERVER,
}


def pinned(artifact: str, content: bytes) -> PinnedJar:
    return PinnedJar(f"org.log:{artifact}:1.0", len(content), hashlib.sha256(content).hexdigest())


JARS = PinnedJars("log-1.0", "the log", (pinned("log", LOG), pinned("log-server", SERVER)))


class Repository(ThreadingHTTPServer):
    """A Maven repository on loopback."""

    daemon_threads = True

    def __init__(self, content: dict[str, bytes]) -> None:
        super().__init__((HOST, 0), Answer)
        self.content = content
        self.asked: list[str] = []

    @property
    def environment(self) -> dict[str, str]:
        return {"HIGHTIDE_MAVEN_REPOSITORY": f"http://{HOST}:{self.server_port}/maven2/"}


class Answer(BaseHTTPRequestHandler):
    server: Repository

    def do_GET(self) -> None:
        self.server.asked.append(self.path)
        content = self.server.content.get(self.path)
        self.send_response(404 if content is None else 200)
        self.end_headers()
        # Without a length, the end of the connection ends it.
        self.wfile.write(content or b"")

    def log_request(self, code: int | str = "-", size: int | str = "-") -> None:
        """Tests count requests themselves."""


@contextmanager
def repository(content: dict[str, bytes]) -> Iterator[Repository]:
    server = Repository(content)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    try:
        yield server
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


def test_the_jars_are_downloaded_once_and_then_need_no_repository(tmp_path: Path) -> None:
    with repository(PLACES) as maven:
        jars = jars_in(tmp_path / "cache", JARS, maven.environment)
        assert maven.asked == list(PLACES)
    assert [jar.name for jar in jars] == ["log-1.0.jar", "log-server-1.0.jar"]
    assert [jar.read_bytes() for jar in jars] == [LOG, SERVER]
    assert jars_in(tmp_path / "cache", JARS, maven.environment) == jars
    assert jars[0].parent.parent == tmp_path / "cache"


@pytest.mark.parametrize(
    "sent", [b"x" * len(SERVER), SERVER[:-1], b""], ids=["of the same size", "cut short", "empty"]
)
def test_a_jar_that_is_another_is_thrown_away(tmp_path: Path, sent: bytes) -> None:
    with (
        repository({**PLACES, list(PLACES)[1]: sent}) as maven,
        pytest.raises(ClusterError, match=r"org\.log:log-server:1\.0 .* another SHA-256 sum .* thrown away"),
    ):
        jars_in(tmp_path, JARS, maven.environment)
    assert list(tmp_path.iterdir()) == []


def test_a_jar_without_end_is_given_up_when_it_is_larger_than_the_pinned_one(tmp_path: Path) -> None:
    class Endless(Answer):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            try:
                while True:
                    self.wfile.write(b"x" * 65_536)
            except OSError:
                ended.set()

    ended = threading.Event()
    with repository({}) as maven:
        maven.RequestHandlerClass = Endless
        with pytest.raises(ClusterError, match="another SHA-256 sum"):
            jars_in(tmp_path, JARS, maven.environment)
        assert ended.wait(60), "the connection stayed open"
    assert list(tmp_path.iterdir()) == []


def test_a_jar_that_the_repository_does_not_have_is_named_with_the_repository(tmp_path: Path) -> None:
    with (
        repository({}) as maven,
        pytest.raises(RepositoryError, match=r"org\.log:log:1\.0 of the log .* from http://.*/maven2: 404"),
    ):
        jars_in(tmp_path, JARS, maven.environment)
    assert list(tmp_path.iterdir()) == []


def test_a_repository_that_nobody_reaches_is_one_line_with_the_next_step(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hightide_local.jars.zookeeper_jars.find_spec", lambda name: None)
    with socket.socket() as bound:
        bound.bind((HOST, 0))
        address = f"http://{HOST}:{bound.getsockname()[1]}/maven2"
        with pytest.raises(RepositoryError) as raised:
            zookeeper_class_path({"HIGHTIDE_MAVEN_REPOSITORY": address}, tmp_path)
    said = str(raised.value)
    assert re.match(
        r"no ZooKeeper found: org\.apache\.zookeeper:zookeeper:3\.9\.\d+ of Apache ZooKeeper 3\.9\.\d+ "
        rf"cannot be downloaded from {re.escape(address)}: .*Connection refused",
        said,
    )
    for step in ("HIGHTIDE_MAVEN_REPOSITORY", "HIGHTIDE_ZOOKEEPER_HOME", "pip install 'hightide[local]'"):
        assert step in said
    assert "\n" not in said


def test_processes_that_begin_at_the_same_time_have_the_same_jars(tmp_path: Path) -> None:
    with repository(PLACES) as maven, ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: jars_in(tmp_path, JARS, maven.environment), range(4)))
    assert found[0] == found[1] == found[2] == found[3]
    assert list(tmp_path.iterdir()) == [found[0][0].parent]


def test_a_cache_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "cache").write_text("a file")
    with (
        repository(PLACES) as maven,
        pytest.raises(ClusterError, match=r"the log cannot be kept in .*/cache: "),
    ):
        jars_in(tmp_path / "cache", JARS, maven.environment)
