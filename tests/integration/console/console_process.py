"""`hightide console` as a process of its own, and a browser's session with it."""

import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import httpx2

# Ends what hangs; the tests wait for what they name, and not for a time.
WAIT_S = 60.0


@contextmanager
def console(bootstrap: str, *arguments: str) -> Iterator[httpx2.Client]:
    """A console of this cluster. It ends by Ctrl-C, while the session is still open."""
    command = [
        *(sys.executable, "-m", "hightide_cli", "console", "--port", "0", "--bootstrap", bootstrap),
        *arguments,
    ]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
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
