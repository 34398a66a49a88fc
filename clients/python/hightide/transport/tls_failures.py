"""The failures of a client's connections of which TLS may be the reason.

A failed call is not held up: the first failure of an address begins a look at it in the background
(`hightide.transport.tls_diagnosis`), and the next ones tell what was found. Clients try several times.
"""

import threading
import time
from typing import Final

from hightide.calls.tls_files import TlsFiles
from hightide.errors import AddressUnreachableError, TlsHandshakeError
from hightide.transport.tls_diagnosis import TlsFinding, diagnose

LOOK_TIMEOUT_S: Final = 3.0
# One address is looked at no more often than this, however often calls to it fail.
REST_S: Final = 1.0
# What was found is told for so long, unless another look finds something else.
TOLD_FOR_S: Final = 10.0


class TlsFailures:
    """What is known of the addresses that one client fails to connect to. Thread-safe. `files` is None for a
    client that uses plaintext."""

    def __init__(self, files: TlsFiles | None) -> None:
        self._files = files
        self._lock = threading.Lock()
        self._looks: dict[str, _Look] = {}

    def explained(
        self, error: AddressUnreachableError, address: str, *, has_been_reached: bool
    ) -> AddressUnreachableError:
        """The error with what is known by now of its reason, or as it is. Never blocks."""
        now_s = time.monotonic()
        with self._lock:
            self._looks = {at: each for at, each in self._looks.items() if each.is_told(now_s)}
            look = self._looks.get(address)
            finding = None if look is None else look.finding
            if look is None or look.is_over(now_s):
                self._looks[address] = _Look(address, self._files, now_s, finding)
        return error if finding is None else _refused(finding, address, has_been_reached=has_been_reached)

    def awaited(
        self, error: AddressUnreachableError, address: str, *, has_been_reached: bool
    ) -> AddressUnreachableError:
        """The same, but waits for a look that is under way: for who does not try again."""
        with self._lock:
            look = self._looks.get(address)
        if look is None or not look.ended.wait(LOOK_TIMEOUT_S) or look.finding is None:
            return error
        return _refused(look.finding, address, has_been_reached=has_been_reached)


def _refused(finding: TlsFinding, address: str, *, has_been_reached: bool) -> TlsHandshakeError:
    return TlsHandshakeError(
        finding.text, address=address, fault=finding.fault, has_been_reached=has_been_reached
    )


class _Look:
    """One look at an address, on a thread of its own. `finding` is that of the look before until it ends."""

    def __init__(self, address: str, files: TlsFiles | None, now_s: float, before: TlsFinding | None) -> None:
        self.finding = before
        self._began_s = now_s
        self.ended = threading.Event()
        threading.Thread(target=self._run, args=(address, files), name="hightide-tls", daemon=True).start()

    def _run(self, address: str, files: TlsFiles | None) -> None:
        try:
            self.finding = diagnose(address, files, LOOK_TIMEOUT_S)
        finally:
            self.ended.set()

    def is_over(self, now_s: float) -> bool:
        """Whether the address may be looked at again."""
        return self.ended.is_set() and now_s - self._began_s >= REST_S

    def is_told(self, now_s: float) -> bool:
        """Whether it still says something about the address."""
        return not self.ended.is_set() or now_s - self._began_s < TOLD_FOR_S
