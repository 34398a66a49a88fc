"""Each page of the console over a real cluster, as a browser shows it: in light and dark, on a phone, to a
screen reader, by keyboard alone."""

from collections.abc import Iterator
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe
from console_browser.conftest import PHONE, Visit
from console_browser.stage import GROUP, ORDERS, Traffic
from hightide import Admin, Producer
from hightide_local.cluster import LocalCluster
from playwright.sync_api import Page, expect

pytestmark = [pytest.mark.cluster, pytest.mark.usefixtures("busy")]

PAGES = (
    "/",
    "/topics",
    f"/topics/{ORDERS}",
    f"/topics/{ORDERS}/records?limit=20",
    f"/topics/{ORDERS}/tail",
    "/groups",
    f"/groups/{GROUP}",
    "/failovers",
    f"/changes/produce?topic={ORDERS}",
    f"/changes/reset-offsets?group={GROUP}",
    f"/changes/delete-topic?topic={ORDERS}",
    "/nowhere",
)
LOOKS: dict[str, dict[str, Any]] = {"light": {}, "dark": {"color_scheme": "dark"}, "phone": PHONE}
SOON_MS = 60_000
THREE_MESSAGES = """(address) => {
  let count = 0;
  const other = new EventSource(address);
  other.addEventListener("records", () => { if (++count == 3) { other.close(); console.log("beat"); } });
}"""

SECOND_YES = """async (ticket) => {
  const answer = await fetch("/changes", { method: "POST", body: new URLSearchParams({ ticket }) });
  return answer.status;
}"""


@pytest.fixture(scope="module")
def busy(cluster: LocalCluster, address: str) -> Iterator[None]:
    with Traffic(cluster):
        yield


def serious_of(page: Page) -> list[Any]:
    """What axe finds that keeps somebody from using the page."""
    return [
        (each["id"], each["help"], [node["html"] for node in each["nodes"]][:3])
        for each in Axe().run(page).response["violations"]
        if each["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("look", LOOKS)
@pytest.mark.parametrize("path", PAGES)
def test_a_page_is_as_wide_as_its_window_and_axe_finds_nothing_serious(
    visit: Visit, address: str, path: str, look: str
) -> None:
    page = visit(address, path, **LOOKS[look])
    page.keyboard.press("p")  # A page that rests: axe reads it node by node.
    assert not serious_of(page)
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    page.screenshot()


@pytest.mark.parametrize("look", LOOKS)
def test_what_would_happen_and_what_happened_fit_their_window(visit: Visit, address: str, look: str) -> None:
    page = visit(address, f"/changes/produce?topic={ORDERS}", **LOOKS[look])
    page.locator("[name=value]").fill("x" * 1_000)
    page.locator("[name=headers]").fill(f"source={'y' * 300}")
    page.get_by_role("button", name="Show what would happen").click()
    expect(page.locator(".said-by")).to_be_visible(timeout=SOON_MS)
    for heading in ("Write a record?", "Write a record: done"):
        expect(page.locator("h1")).to_have_text(heading, timeout=SOON_MS)
        assert not serious_of(page)
        assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
        if heading.endswith("?"):
            page.get_by_role("button", name="Write a record").click()


def test_a_topic_is_deleted_after_a_look_and_a_yes_and_a_second_yes_does_nothing(
    visit: Visit, cluster: LocalCluster, address: str
) -> None:
    with Admin(cluster.bootstrap) as admin, Producer(cluster.bootstrap) as producer:
        admin.create_topic("unwanted", 2, 3)
        producer.send("unwanted", b"a record")
        producer.flush()
        page = visit(address, "/topics/unwanted")
        page.get_by_role("link", name="Delete the topic").click()
        expect(page.locator("[name=topic]")).to_have_value("unwanted")
        page.get_by_role("button", name="Show what would happen").click()
        expect(page.locator(".said-by")).to_contain_text("1 record", timeout=SOON_MS)
        expect(page.locator("#ask-title")).to_have_text("All its records are deleted for good.")
        assert "unwanted" in admin.list_topics()
        ticket = page.locator("[name=ticket]").input_value()
        page.get_by_role("button", name="Delete the topic").dblclick()
        expect(page.locator("h1")).to_have_text("Delete the topic: done", timeout=SOON_MS)
        admin.create_topic("unwanted", 2, 3)
        assert page.evaluate(SECOND_YES, ticket) == 409
        assert "unwanted" in admin.list_topics()
        page.get_by_role("link", name="Look at what is there now").click()
        expect(page.locator("h1")).to_have_text("Topics")


def test_no_is_an_answer(visit: Visit, cluster: LocalCluster, address: str) -> None:
    page = visit(address, "/changes/delete-topic?topic=sessions")
    page.get_by_role("button", name="Show what would happen").click()
    page.get_by_role("link", name="No", exact=True).click(timeout=SOON_MS)
    expect(page.locator("#grid")).to_be_visible()
    with Admin(cluster.bootstrap) as admin:
        assert "sessions" in admin.list_topics()


def test_lists_renew_themselves(visit: Visit, cluster: LocalCluster, address: str) -> None:
    page = visit(address, "/topics?name=unseen-so")
    expect(page.locator(".empty")).to_contain_text("No topic has “unseen-so” in its name.")
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic("unseen-so-far", 3, 3)
    expect(page.get_by_role("link", name="unseen-so-far")).to_be_visible(timeout=SOON_MS)
    page.keyboard.press("3")
    expect(page.locator("[data-part=group_list]")).to_contain_text(GROUP, timeout=SOON_MS)


def test_a_failover_is_a_waterfall(visit: Visit, cluster: LocalCluster, address: str) -> None:
    page = visit(address)
    expect(page.locator("#status")).to_contain_text("Healthy", timeout=SOON_MS)
    cluster.kill("broker-2")
    expect(page.locator("[data-part=brokers]")).to_contain_text("dead", timeout=SOON_MS)
    expect(page.locator("[data-part=unwell]")).to_contain_text("under-replicated", timeout=SOON_MS)
    cluster.restart("broker-2")
    expect(page.locator("#status")).to_contain_text("Healthy", timeout=SOON_MS)
    page.keyboard.press("4")
    page.get_by_role("link", name="failover of broker 2").first.click()
    expect(page.locator(".waterfall svg")).to_contain_text("leadership change")
    expect(page.locator(".sentence")).to_contain_text("detect")
    assert not serious_of(page)


def test_dark_and_light_are_what_the_system_asks_for(visit: Visit, address: str) -> None:
    tones = [
        visit(address, "/topics", color_scheme=each).evaluate(
            "getComputedStyle(document.body).backgroundColor"
        )
        for each in ("light", "dark")
    ]
    assert tones == ["rgb(255, 255, 255)", "rgb(17, 23, 28)"]


def test_all_is_reached_by_keys(visit: Visit, address: str) -> None:
    page = visit(address)
    page.keyboard.press("Tab")
    expect(page.locator(".skip")).to_be_focused()
    page.keyboard.press("?")
    expect(page.locator("#keys")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.locator("#keys")).to_be_hidden()
    page.locator("#grid[data-cells]").focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    expect(page.locator("#grid-said")).to_contain_text(f"{ORDERS}-1: in sync; leader")
    page.keyboard.press("ArrowDown")
    expect(page.locator("#grid-said")).to_contain_text("payments-1")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url(f"**/topics/{ORDERS}*")
    page.keyboard.press("2")
    page.wait_for_url("**/topics")
    page.keyboard.press("/")
    expect(page.locator("#find")).to_be_focused()
    page.keyboard.type("order1")  # Neither letters nor digits are keys of the page while one types.
    page.keyboard.press("Enter")
    expect(page.locator("main")).to_contain_text("No topic has “order1” in its name.")


def test_the_tail_shows_what_comes_until_it_is_paused(visit: Visit, address: str) -> None:
    page = visit(address, f"/topics/{ORDERS}/tail")
    records = page.locator("#tail .record")
    expect(records.first).to_be_visible(timeout=30_000)
    expect(records.first).to_contain_text("customer-")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator("#tail-pause")).to_have_attribute("aria-pressed", "true")
    newest = records.first.inner_text()
    with page.expect_event("console", lambda said: said.text == "beat", timeout=30_000):
        # Messages come, and change nothing.
        page.evaluate(THREE_MESSAGES, f"/events/topics/{ORDERS}/tail")
    assert records.first.inner_text() == newest
    page.keyboard.press("p")
    expect(records.first).not_to_have_text(newest, timeout=30_000)


def test_the_figures_of_a_page_move_without_loading_it_again(visit: Visit, address: str) -> None:
    page = visit(address, f"/groups/{GROUP}")
    members = page.locator("[data-part=members]")
    expect(members).to_contain_text("billing-1", timeout=SOON_MS)
    before = page.locator("[data-part=lags]").inner_text()
    page.wait_for_function(
        "before => document.querySelector('[data-part=lags]').innerText != before",
        arg=before,
        timeout=SOON_MS,
    )
    assert page.locator("#chart-lag canvas").count() == 1


def test_a_change_is_filled_in_shown_copied_and_done(
    visit: Visit, cluster: LocalCluster, address: str
) -> None:
    page = visit(address, "/topics", permissions=["clipboard-read", "clipboard-write"])
    page.get_by_role("link", name="Create a topic").click()
    page.locator("[name=name]").fill("by-hand")
    page.locator("[name=partitions]").fill("3")
    page.locator("[name=settings]").fill("retention.ms=1000")
    page.get_by_role("button", name="Show what would happen").click()
    expect(page.locator(".said-by")).to_contain_text("would be created", timeout=SOON_MS)
    assert not serious_of(page)
    page.get_by_role("button", name="Copy").click()
    expect(page.get_by_role("button", name="Copied")).to_be_visible()
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.startswith(
        "hightide topic create by-hand --partitions=3 --config=retention.ms=1000 --bootstrap="
    )
    page.get_by_role("button", name="Create a topic").click()
    expect(page.locator("h1")).to_have_text("Create a topic: done", timeout=SOON_MS)
