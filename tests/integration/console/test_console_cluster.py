"""The console over a real cluster: what it shows is what is there, also when the cluster goes away and comes
back."""

import time
from collections.abc import Iterator
from contextlib import ExitStack
from html import unescape

import pytest
from hightide import Admin, Producer
from hightide_local.cluster import LocalCluster
from integration.console.console_process import console, events, wait_for_part

pytestmark = pytest.mark.cluster


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster of its own: whether another one is healthy is for what was done to it before to say."""
    with LocalCluster(tmp_path_factory.mktemp("console"), coordinators=1, partitionable=True) as started:
        yield started


def test_pages_show_what_is_in_the_cluster(cluster: LocalCluster) -> None:
    topic = "console-shown"
    hostile = b"<script>alert(1)</script>\xff\x00"
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(topic, 2, 3)
        for number in range(20):
            producer.send(topic, b'{"n": %d}' % number, b"k%d" % number, partition=0)
        producer.send(topic, hostile, b"odd", partition=1, headers=[("<b>", b"x")])
        producer.flush()
    with console(cluster.bootstrap) as client:
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
    with console(cluster.bootstrap) as client:
        wait_for_part(client, "/events/overview", "status", "Healthy")
        cluster.kill("broker-2")
        assert "2" in wait_for_part(client, "/events/overview", "brokers", "dead")
        wait_for_part(client, "/events/overview", "unwell", topic)
        cluster.restart("broker-2")
        wait_for_part(client, "/events/overview", "status", "Healthy")


def test_a_cluster_that_goes_away_is_called_down_and_comes_back_by_itself(cluster: LocalCluster) -> None:
    brokers = [f"broker-{each}" for each in cluster.brokers]
    with console(cluster.bootstrap) as client:
        wait_for_part(client, "/events/overview", "status", "Healthy")
        cluster.refuse_connections(*brokers)
        assert "no broker" in wait_for_part(client, "/events/overview", "status", "Down")
        assert "cannot be shown" in client.get("/topics/gone").text
        cluster.heal()
        wait_for_part(client, "/events/overview", "status", "Healthy")


def test_it_ends_by_ctrl_c_while_windows_are_open(cluster: LocalCluster) -> None:
    with ExitStack() as windows, console(cluster.bootstrap) as client:
        for path in ("/events/overview", "/events/topics/console-watched/tail"):
            window = windows.enter_context(client.stream("GET", path))
            next(window.iter_lines())


def test_the_tail_of_a_busy_topic_sends_what_somebody_can_read(cluster: LocalCluster) -> None:
    topic, messages, each = "console-busy", 6, 3_000
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(topic, 1, 3)
        with console(cluster.bootstrap) as client:
            shown, skipped, begun_s = 0, 0, time.monotonic()
            for name, document in events(client, f"/events/topics/{topic}/tail"):
                if name == "records":
                    messages -= 1
                    shown += document["html"].count("<article")
                    skipped += document["skipped"]
                if messages == 0:
                    break
                for _ in range(each):
                    producer.send(topic, b"x" * 100)
                producer.flush()
            took_s = time.monotonic() - begun_s
    # Without a rest, a message follows the one before as soon as there is a record.
    assert took_s > 5 * 0.4
    assert shown <= 6 * 50
    assert skipped > shown
