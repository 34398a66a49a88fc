"""A browser, pages that fail on its complaints, a cluster with a console, consoles of a canned cluster."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from socket import AF_INET, SOCK_STREAM, socket
from typing import Any

import pytest
import uvicorn
from console_browser.browser import VARIABLE, browsing, chromium
from console_browser.stage import console_of, fill
from hightide_console.access import TOKEN_PARAMETER
from hightide_console.app import application
from hightide_console.console import Console
from hightide_console.server import Server
from hightide_local.cluster import LocalCluster
from playwright.sync_api import Browser, Page, Response
from unit.console.canned_cluster import CannedDoor, canned_console

PHONE = {"viewport": {"width": 390, "height": 844}}
Visit = Callable[..., Page]
Serve = Callable[[CannedDoor], str]


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    path = chromium()
    if path is None:
        pytest.skip(f"no Chromium here: apt-get install chromium, or name one by {VARIABLE}")
    with browsing(path) as found:
        yield found


@pytest.fixture
def visit(browser: Browser, serve: Serve) -> Iterator[Visit]:
    """Open a page of the console at an address, in a browser that nobody has used. The test fails if the
    browser complains of the page: an error of a script, something that the policy refuses, a missing file.
    It goes before the consoles end."""
    complaints: list[str] = []
    missing: list[str] = []
    with ExitStack() as stack:

        def opened(address: str, path: str = "/", **options: Any) -> Page:
            context = browser.new_context(**{"viewport": {"width": 1280, "height": 800}, **options})
            stack.callback(context.close)
            page = context.new_page()
            page.goto(address)
            page.on("pageerror", lambda error: complaints.append(str(error)))
            page.on("console", lambda said: complaints.append(said.text) if said.type == "error" else None)
            page.on("response", lambda answer: missing.append(answer.url) if _is_missing(answer) else None)
            page.goto(address.partition("/?")[0] + path)
            return page

        yield opened
    # What a page asks for in vain is trouble that tests make; but its own files are there.
    unexpected = [each for each in complaints if not each.startswith("Failed to load resource")]
    assert not unexpected + missing


def _is_missing(answer: Response) -> bool:
    return answer.status >= 400 and "/static/" in answer.url


@pytest.fixture(scope="module")
def cluster(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """A cluster with records in it, that a test can cut off."""
    with LocalCluster(tmp_path_factory.mktemp("console"), coordinators=1, partitionable=True) as started:
        fill(started)
        yield started


@pytest.fixture(scope="module")
def address(cluster: LocalCluster) -> Iterator[str]:
    """The address that the console of this cluster printed. It may change things, so that its pages have all
    that pages have."""
    with console_of(cluster, "--allow-changes") as printed:
        yield printed


@pytest.fixture
def serve() -> Iterator[Serve]:
    """Serve a console of a canned cluster. Gives the address."""
    with ExitStack() as stack:

        def served(door: CannedDoor) -> str:
            listener = stack.enter_context(socket(AF_INET, SOCK_STREAM))
            listener.bind(("127.0.0.1", 0))
            port = listener.getsockname()[1]
            console = canned_console(port=port, door=door)
            stack.enter_context(_running(console, listener))
            return f"http://127.0.0.1:{port}/?{TOKEN_PARAMETER}={console.access.secret}"

        yield served


@contextmanager
def _running(console: Console, listener: socket) -> Iterator[None]:
    server = Server(uvicorn.Config(application(console), log_level="error", ws="none"), console)
    listener.listen()
    thread = threading.Thread(target=server.run, args=([listener],))
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()
