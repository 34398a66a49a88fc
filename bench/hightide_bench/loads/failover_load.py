"""The load of `bench failover`: a steady stream to some partitions, until the parent stops it."""

import sys
import threading
import time
from functools import partial
from typing import Any

from hightide import Delivery, HightideError, Producer

from hightide_bench.loads.load_worker import load_main, say_ready

_WARM_S = 2.0


def row_of(place: int, number: int) -> tuple[bytes, bytes]:
    """Return key and value of the n-th record of one of the load's partitions; the parent reads them back."""
    return b"%d" % place, b"%d:%d" % (place, number)


def run(configuration: dict[str, Any]) -> dict[str, Any]:
    """Send a record to each partition in each interval. Returns the times of acknowledgement, and the
    failures."""
    partitions: list[tuple[str, int]] = configuration["partitions"]
    interval_s = configuration["interval_ms"] / 1000
    acknowledged_ms: list[list[float]] = [[] for _ in partitions]
    failed: list[tuple[int, int, str]] = []

    def done(place: int, number: int, delivery: Delivery) -> None:
        error: HightideError | None = delivery.exception(0)
        if error is None:
            acknowledged_ms[place].append(time.monotonic() * 1000)
        else:
            failed.append((place, number, str(error)))

    enough = threading.Event()
    threading.Thread(target=_wait_for_the_parent, args=(enough,), daemon=True).start()
    number = 0
    with Producer(configuration["bootstrap"], acks="all", linger_ms=0) as producer:
        started_s, ready = time.monotonic(), False
        while not enough.is_set():
            for place, (topic, partition) in enumerate(partitions):
                key, value = row_of(place, number)
                delivery = producer.send(topic, value, key, partition=partition)
                delivery.add_done_callback(partial(done, place, number))
            number += 1
            if not ready and time.monotonic() - started_s > _WARM_S and all(acknowledged_ms):
                ready = True
                say_ready()
            enough.wait(max(started_s + number * interval_s - time.monotonic(), 0))
        producer.flush()
    return {"sent_per_partition": number, "acknowledged_ms": acknowledged_ms, "failed": failed}


def _wait_for_the_parent(enough: threading.Event) -> None:
    sys.stdin.read()
    enough.set()


if __name__ == "__main__":
    load_main(run)
