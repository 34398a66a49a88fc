"""The console over a real cluster: what it shows is what is there, also when the cluster goes away and comes
back."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from html import unescape
from typing import Any

import httpx2
import pytest
from hightide import Admin, Producer
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

# Ends what hangs; the tests wait for what they name, and not for a time.
WAIT_S = 60.0


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of its own: whether another one is healthy is for what was done to it before to say."""
    with LocalCluster(tmp_path_factory.mktemp("console"), coordinators=1, partitionable=True) as started:
        yield started


@contextmanager
def console(cluster: LocalCluster, *arguments: str) -> Iterator[httpx2.Client]:
    """The command as a process of its own, and a browser's session with it. It ends by Ctrl-C."""
    command = [
        sys.executable,
        "-m",
        "hightide_cli",
        "console",
        "--port",
        "0",
        "--bootstrap",
        cluster.bootstrap,
    ]
    with subprocess.Popen(
        [*command, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            address = process.stdout.readline().split()[-1]
            with httpx2.Client(timeout=WAIT_S, follow_redirects=True) as client:
                page = client.get(address)
                assert page.status_code == 200, page.text
                client.base_url = address.partition("/?")[0]
                yield client
            process.send_signal(signal.SIGINT)
            _, said = process.communicate(timeout=WAIT_S)
            assert (process.returncode, "Traceback" in said) == (0, False), said
        finally:
            process.kill()


def events(client: httpx2.Client, path: str) -> Iterator[tuple[str, Any]]:
    """The events of a stream, with their documents; of a comment, no name and no document."""
    with client.stream("GET", path) as answer:
        assert answer.status_code == 200
        name = ""
        for line in answer.iter_lines():
            field, _, value = line.partition(": ")
            if field == "event":
                name = value
            elif field == "data":
                yield name, json.loads(value)
            elif line.startswith(":"):
                yield "", None


def wait_for_part(client: httpx2.Client, path: str, part: str, text: str) -> str:
    """The part of a page as soon as it has this text."""
    shown, end_s = "", time.monotonic() + WAIT_S
    for name, document in events(client, path):
        if name == "parts":
            shown = document.get(part, shown)
        if text in shown:
            return shown
        assert time.monotonic() < end_s, f"{part} did not come to have {text!r}; it has {shown}"
    raise AssertionError(f"the stream ended, and {part} never had {text!r}; it had {shown}")


def test_pages_show_what_is_in_the_cluster(cluster: LocalCluster) -> None:
    topic = "console-shown"
    hostile = b"<script>alert(1)</script>\xff\x00"
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(topic, 2, 3)
        for number in range(20):
            producer.send(topic, b'{"n": %d}' % number, b"k%d" % number, partition=0)
        producer.send(topic, hostile, b"odd", partition=1, headers=[("<b>", b"x")])
        producer.flush()
    with console(cluster) as client:
        assert topic in client.get("/topics").text
        assert client.get("/grid.json").json()["rows"][topic][0] != []
        page = client.get(f"/topics/{topic}/records?partition=0&start=offset&at=3&limit=2").text
        assert '{"n": 3}' in unescape(page)
        assert '{"n": 5}' not in unescape(page)
        by_key = client.get(f"/topics/{topic}/records?match=key&text=k1").text
        assert '{"n": 1}' in unescape(by_key)
        assert '{"n": 10}' not in unescape(by_key)
        odd = client.get(f"/topics/{topic}/records?partition=1").text
        assert "3c 73 63 72 69 70 74" in odd
        assert "<b>x" not in odd
        assert client.get(f"/topics/{topic}/records/1/0/value").content == hostile
        failed = client.get(f"/topics/{topic}/records?match=pattern&text=(").text
        assert "cannot be read" in failed


def test_a_broker_that_dies_is_seen_in_an_open_window(cluster: LocalCluster) -> None:
    topic = "console-watched"
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(topic, 3, 3)
    with console(cluster) as client:
        wait_for_part(client, "/events/overview", "status", "Healthy")
        cluster.kill("broker-2")
        assert "2" in wait_for_part(client, "/events/overview", "brokers", "dead")
        wait_for_part(client, "/events/overview", "unwell", topic)
        cluster.restart("broker-2")
        wait_for_part(client, "/events/overview", "status", "Healthy")


def test_a_cluster_that_goes_away_is_called_down_and_comes_back_by_itself(cluster: LocalCluster) -> None:
    brokers = [f"broker-{each}" for each in cluster.brokers]
    with console(cluster) as client:
        wait_for_part(client, "/events/overview", "status", "Healthy")
        cluster.refuse_connections(*brokers)
        assert "no broker" in wait_for_part(client, "/events/overview", "status", "Down")
        assert "cannot be shown" in client.get("/topics/gone").text
        cluster.heal()
        wait_for_part(client, "/events/overview", "status", "Healthy")
