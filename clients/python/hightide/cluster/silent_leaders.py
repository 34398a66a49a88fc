"""The rule for asking other brokers for the leader, because the known leader does not answer.

Rules of this file: no clock, no I/O; time comes in as `now_ms`, chance as a seeded Random.

A leader that is paused or cut off cannot say that it no longer leads, and its connection does not break: a
call to it hangs until its deadline. So, once a call has been silent for longer than a live leader takes, the
client asks the other brokers, and goes on asking while the silence lasts: the election comes when the
leader's session expires, whenever that is.

On average, a client hears of an election half of the pause between two questions after it. The pause does not
grow: a session lasts seconds, and after a pause that had grown as long the client would hear of the election
late. It is Kafka's retry.backoff.ms, with jitter, so that clients that wait for one leader do not ask in
step. It holds for a client as a whole, however many of its calls are silent, so that no client asks more than
13 times a second.
"""

from collections.abc import Iterable
from random import Random
from typing import Any, Final

from hightide.calls.call import Call
from hightide.cluster.metadata import MetadataSeeker

ASK_PAUSE_MS: Final = 100
ASK_JITTER: Final = 0.2


class SilentLeaders:
    """The silent leaders of one core. `patience_ms` is how long a live leader may take to answer."""

    def __init__(self, seeker: MetadataSeeker, patience_ms: int, random: Random) -> None:
        assert patience_ms > ASK_PAUSE_MS, "what answers in time is not silent"
        self.wake_at_ms: float | None = None
        self._seeker = seeker
        self._patience_ms = patience_ms
        self._random = random
        self._ask_at_ms = 0.0

    def poll(self, calls: Iterable[Call[Any]], now_ms: float) -> None:
        """Ask for news if one of these calls, the oldest first, has been silent for too long. Sets
        `wake_at_ms`."""
        self.wake_at_ms = None
        silent = set()
        for call in calls:
            silent_at_ms = call.started_ms + self._patience_ms
            if now_ms < silent_at_ms:
                self.wake_at_ms = silent_at_ms
                break
            silent.add(call.address)
        if not silent:
            return
        if now_ms >= self._ask_at_ms:
            for address in silent:
                self._seeker.suspect(address)
            self._seeker.want()
            self._ask_at_ms = now_ms + ASK_PAUSE_MS * self._random.uniform(1 - ASK_JITTER, 1 + ASK_JITTER)
        if self.wake_at_ms is None or self._ask_at_ms < self.wake_at_ms:
            self.wake_at_ms = self._ask_at_ms
