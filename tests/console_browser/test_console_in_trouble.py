"""What a browser shows when there is trouble: records that mean harm, a cluster that goes away, that is
empty, that has not answered yet."""

import asyncio
import re
from dataclasses import replace

import pytest
from console_browser.conftest import Serve, Visit
from console_browser.stage import console_of
from hightide import Admin, Producer
from hightide.errors import BrokersUnavailableError, ControllerUnavailableError, HightideError
from hightide_console.looks import Survey
from hightide_local.cluster import LocalCluster
from playwright.sync_api import expect
from unit.console.canned_cluster import CLUSTER, CannedDoor

HARM = b"<script>window.harm = 1</script><img src=x onerror='window.harm = 1'>"
SOON_MS = 60_000
# The moment at which the page says so, by its own clock, whatever the test is doing then.
NOTE_WHEN_IT_SAYS_DOWN = """() => {
  window.said = new Promise((resolve) => {
    const line = document.querySelector("#status");
    const watch = new MutationObserver(() => {
      if (line.textContent.includes("Down")) { watch.disconnect(); resolve(performance.now()); }
    });
    watch.observe(line, { childList: true, subtree: true });
  });
}"""
NO_HARM = """() => window.harm === undefined
  && document.querySelectorAll(".record img, .record script").length === 0"""


@pytest.mark.cluster
def test_records_that_mean_harm_are_text_and_cost_no_more_than_others(
    visit: Visit, cluster: LocalCluster, address: str
) -> None:
    topic = "harm"
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic(topic, 1, 3)
        producer.send(topic, HARM, HARM, headers=[(HARM.decode(), HARM)])
        producer.send(topic, b"x" * 1_000_000, b"a line of a megabyte")
        producer.send(topic, b'{"a": "' + b"<b>" * 300_000 + b'"}', b"a document of a megabyte")
        producer.send(topic, b"\xff\xfe\x80" * 100 + HARM, b"invalid \xff UTF-8")
        producer.send(topic, "\u202egnp.exe \u2066\u0000\u001b[2J".encode(), b"turns the direction")
        producer.flush()
    page = visit(address, f"/topics/{topic}/records")
    assert page.locator(".record").count() == 5
    assert page.evaluate(NO_HARM)
    assert len(page.content()) < 60_000
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    shown = page.locator(".records").inner_text()
    assert not re.search("[\u202e\u2066\u0000\u001b]", shown)
    assert "<script>window.harm = 1</script>" in shown
    assert "ff fe 80 ff" in shown
    assert "download" in shown
    with page.expect_download() as download:
        page.get_by_role("link", name="download").first.click()
    assert download.value.suggested_filename.endswith(".bin")


@pytest.mark.cluster
def test_a_cluster_that_goes_away_is_said_within_a_second_and_comes_back_by_itself(
    visit: Visit, cluster: LocalCluster, address: str
) -> None:
    page = visit(address)
    status = page.locator("#status")
    took_ms = []
    for _ in range(3):
        expect(status).to_contain_text("Healthy", timeout=SOON_MS)
        page.evaluate(NOTE_WHEN_IT_SAYS_DOWN)
        cut_at = page.evaluate("performance.now()")
        cluster.refuse_connections(*(f"broker-{each}" for each in cluster.brokers))
        took_ms.append(page.evaluate("window.said") - cut_at)
        expect(status).to_contain_text("no broker")
        assert page.locator("body.stale").count() == 1
        expect(page.locator("[data-part=brokers]")).to_contain_text(
            "127.0.0.1"
        )  # What was known is still there.
        cluster.heal()
        expect(status).to_contain_text("Healthy", timeout=SOON_MS)
        expect(page.locator("body.stale")).to_have_count(0)
    # The best of three, so that a machine that is busy with other things does not count.
    assert min(took_ms) <= 1000, took_ms


@pytest.mark.cluster
def test_a_zookeeper_that_goes_away_is_named_and_comes_back(
    visit: Visit, cluster: LocalCluster, address: str
) -> None:
    page = visit(address)
    roles, status = page.locator("[data-part=roles]"), page.locator("#status")
    expect(roles).to_contain_text("answers, ", timeout=SOON_MS)
    expect(roles).to_contain_text(cluster.zookeeper)
    cluster.kill("zookeeper")
    expect(roles).to_contain_text("does not answer: no process has a session", timeout=SOON_MS)
    expect(status).to_contain_text("ZooKeeper does not answer")
    cluster.restart("zookeeper")
    expect(roles).to_contain_text("answers, ", timeout=SOON_MS)
    expect(status).to_contain_text("Healthy", timeout=SOON_MS)


class SilentDoor(CannedDoor):
    """A cluster of which the long question is never answered."""

    async def survey(self) -> Survey:
        await asyncio.Event().wait()
        raise AssertionError("nobody sets it")


class EmptyDoor(CannedDoor):
    """A cluster without a topic."""

    async def survey(self) -> Survey:
        return replace(await super().survey(), topics=())


def test_an_empty_cluster_says_how_to_begin(visit: Visit, serve: Serve) -> None:
    page = visit(serve(EmptyDoor()))
    expect(page.locator("#grid-said")).to_have_text("There is no partition yet.")
    page.keyboard.press("2")
    expect(page.locator(".empty")).to_contain_text("hightide topic create NAME")
    page.keyboard.press("4")
    expect(page.locator("main")).to_contain_text("start the console with --traces")


def test_before_the_first_answer_a_page_has_its_form_and_no_figures(visit: Visit, serve: Serve) -> None:
    page = visit(serve(SilentDoor()))
    expect(page.locator(".figure").first).to_be_visible()
    expect(page.locator("#chart-records canvas")).to_be_visible()
    page.keyboard.press("2")
    expect(page.locator("h1")).to_have_text("Topics")


@pytest.mark.parametrize(
    ("error", "word"),
    [
        (BrokersUnavailableError("no broker answers at 127.0.0.1:9091"), "Down"),
        (ControllerUnavailableError("no controller is active"), "No controller"),
    ],
)
def test_a_cluster_that_was_never_there_is_a_sentence_and_the_page_goes_on_when_it_is(
    visit: Visit, serve: Serve, error: HightideError, word: str
) -> None:
    door = CannedDoor()
    door.canned.cluster = error
    page = visit(serve(door))
    expect(page.locator("#status")).to_contain_text(word)
    expect(page.locator("#status")).to_contain_text(str(error))
    door.canned.cluster = CLUSTER
    expect(page.locator("#status")).to_contain_text("Healthy", timeout=SOON_MS)
    expect(page.locator("[data-part=brokers]")).to_contain_text("127.0.0.1:9092")


def test_a_console_that_ends_is_said_in_its_open_pages(visit: Visit, cluster: LocalCluster) -> None:
    with console_of(cluster) as address:
        page = visit(address)
        expect(page.locator("#status")).to_contain_text("Healthy", timeout=SOON_MS)
    expect(page.locator("#status")).to_contain_text("The console does not answer", timeout=SOON_MS)
