"""`hightide console` as a process of its own, and a browser's session with it."""

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

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
