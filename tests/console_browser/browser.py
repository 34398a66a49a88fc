"""Debian's Chromium, driven by Playwright; nothing is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from playwright.sync_api import Browser, sync_playwright

VARIABLE: Final = "HIGHTIDE_CHROMIUM"
_NAMES: Final = ("chromium", "chromium-browser", "google-chrome")


def chromium() -> str | None:
    """The path of the browser, or None if this machine has none."""
    named = os.environ.get(VARIABLE)
    return named or next((found for each in _NAMES if (found := shutil.which(each))), None)


@contextmanager
def browsing(path: str) -> Iterator[Browser]:
    """The browser, without a window."""
    with sync_playwright() as playwright:
        # As root, and in containers, Chromium has no sandbox; it opens nothing but the console.
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox", "--disable-gpu"])
        yield browser
        browser.close()
