"""A steady stream of records to some partitions while their leader dies."""

import json
import sys
import threading
import time
from functools import partial
from typing import Any, Final

from hightide_bench.loads.load_worker import load_main, say_ready
from hightide_bench.peers.loads.clients import Clients, clients_of

_WARM_S: Final = 3.0
_READY_S: Final = 60.0


class FailoverLoad:
    """Sends a record to each partition in each interval, and notes when each was acknowledged."""

    def __init__(self, clients: Clients, partitions: list[tuple[str, int]], interval_s: float) -> None:
        self._sender, self._partitions, self._interval_s = clients.record_sender(), partitions, interval_s
        self.acknowledged_s: list[list[float]] = [[] for _ in partitions]
        self.failed = 0
        self._enough = threading.Event()

    def send(self) -> None:
        """Send until `end` is called, and wait for what is under way."""
        began_s, number = time.monotonic(), 0
        while not self._enough.is_set():
            for place, (topic, partition) in enumerate(self._partitions):
                value = b"%d:%d" % (place, number)
                self._sender.send_acknowledged(topic, value, partition, partial(self._take, place))
            number += 1
            self._enough.wait(max(began_s + number * self._interval_s - time.monotonic(), 0))
        self._sender.flush()

    def end(self) -> None:
        """Let `send` return."""
        self._enough.set()

    def silent_ms(self) -> float:
        """For how long the partition that has been silent for longest has acknowledged nothing."""
        now_s = time.monotonic()
        return max((now_s - each[-1]) * 1000 if each else _READY_S * 1000 for each in self.acknowledged_s)

    def _take(self, place: int, error: str | None) -> None:
        if error is None:
            self.acknowledged_s[place].append(time.monotonic())
        else:
            self.failed += 1


def run(configuration: dict[str, Any]) -> dict[str, Any]:
    """Send, say that it is warm, answer how long a partition has been silent, and return all times when the
    parent asks for the end."""
    partitions = [(topic, partition) for topic, partition in configuration["partitions"]]
    load = FailoverLoad(clients_of(configuration), partitions, configuration["interval_ms"] / 1000)
    thread = threading.Thread(target=load.send, daemon=True)
    began_s = time.monotonic()
    thread.start()
    while time.monotonic() - began_s < _WARM_S or not all(load.acknowledged_s):
        if time.monotonic() - began_s > _READY_S:
            raise SystemExit(f"not every partition acknowledged a record within {_READY_S:.0f} s")
        time.sleep(0.01)
    say_ready()
    for line in sys.stdin:
        if json.loads(line)["do"] == "end":
            break
        print(json.dumps({"silent_ms": load.silent_ms()}), flush=True)
    load.end()
    thread.join()
    return {"acknowledged_s": load.acknowledged_s, "failed": load.failed}


if __name__ == "__main__":
    load_main(run)
