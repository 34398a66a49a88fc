"""Takes the pictures of docs/console.md, in light, 1,200 pixels wide: `make console-pictures`."""

import sys
import tempfile
from pathlib import Path

from console_browser.browser import browsing, chromium
from console_browser.stage import GROUP, ORDERS, Traffic, console_of, fill
from hightide_local.cluster import LocalCluster
from PIL import Image
from playwright.sync_api import Page, expect

_COLOURS = 256
_WATCHED_S = 20.0


def main(directory: Path) -> None:
    """Start a cluster, watch it, kill a broker of it, and take the pictures meanwhile."""
    path = chromium()
    if path is None:
        sys.exit("no Chromium here: apt-get install chromium")
    with tempfile.TemporaryDirectory() as files, LocalCluster(Path(files), coordinators=2) as cluster:
        fill(cluster)
        with Traffic(cluster), console_of(cluster) as address, browsing(path) as browser:
            page = browser.new_page(viewport={"width": 1200, "height": 900})
            page.goto(address)
            expect(page.locator("#status")).to_contain_text("Healthy", timeout=60_000)
            page.wait_for_timeout(_WATCHED_S * 1000)  # Until the charts have something to show.
            take(page, directory / "console-overview.png")
            go(page, address, f"/topics/{ORDERS}")
            take(page, directory / "console-topic.png")
            go(page, address, f"/groups/{GROUP}")
            take(page, directory / "console-group.png")
            go(page, address, "/")
            expect(page.locator("#status")).to_contain_text("Healthy", timeout=60_000)
            cluster.kill("broker-2")
            expect(page.locator("[data-part=brokers]")).to_contain_text("dead", timeout=60_000)
            expect(page.locator("[data-part=unwell] tr").nth(2)).to_be_visible(timeout=60_000)
            page.wait_for_timeout(1000)
            take(page, directory / "console-failover-under-way.png")
            go(page, address, "/failovers")
            for _ in range(60):
                if page.get_by_role("link", name="failover of broker 2").count():
                    break
                page.wait_for_timeout(1000)
                page.reload()
            page.get_by_role("link", name="failover of broker 2").first.click()
            expect(page.locator(".waterfall svg")).to_be_visible()
            take(page, directory / "console-failover.png")


def go(page: Page, address: str, path: str) -> None:
    """Go to a page of this console."""
    page.goto(address.partition("/?")[0] + path)
    page.wait_for_timeout(1500)


def take(page: Page, path: Path) -> None:
    """Take a picture, in as few colours as it needs, so that it stays small in the repository."""
    page.screenshot(path=path)
    with Image.open(path) as taken:
        taken.convert("RGB").quantize(_COLOURS, dither=Image.Dither.NONE).save(path, optimize=True)
    print(f"{path}: {path.stat().st_size // 1000} kB")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
