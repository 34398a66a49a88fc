"""The load of `bench consume`: one process reads a topic that was filled before."""

import time
from collections.abc import Callable
from typing import Any

from hightide import Consumer

from hightide_bench.loads.load_worker import load_main
from hightide_bench.measuring.processor_time import ProcessorTime
from hightide_bench.measuring.statistics import latency_figures, rate_figures

_POLL_TIMEOUT_S = 60.0
_RECORDS_A_POLL = 10_000


def run(configuration: dict[str, Any]) -> dict[str, float | None]:
    """Read for warm_s, go back to the beginning, and measure reading all `records`.

    The latencies are the times that polls took.
    """
    wanted, record_bytes = configuration["records"], configuration["record_bytes"]
    latencies_ms: list[float] = []
    with Consumer(configuration["bootstrap"], topics=[configuration["topic"]]) as consumer:
        poll = _poller(consumer, configuration["as"])
        warm_until_s, read = time.monotonic() + configuration["warm_s"], 0
        while time.monotonic() < warm_until_s and read < wanted:
            read += poll()
        consumer.seek_to_beginning()
        used, started_s = ProcessorTime.now(configuration["broker_pids"]), time.monotonic()
        read, polled_s = 0, started_s
        while read < wanted:
            count = poll()
            if count == 0:
                raise SystemExit(f"only {read} of {wanted} records came within {_POLL_TIMEOUT_S:.0f} s")
            read += count
            now_s = time.monotonic()
            latencies_ms.append((now_s - polled_s) * 1000)
            polled_s = now_s
        elapsed_s = time.monotonic() - started_s
        used = ProcessorTime.now(configuration["broker_pids"]).since(used)
    rates = rate_figures(
        records=read,
        size_bytes=read * record_bytes,
        elapsed_s=elapsed_s,
        client_cpu_s=used.client_s,
        broker_cpu_s=used.brokers_s,
    )
    return {**rates, **latency_figures(latencies_ms)}


def _poller(consumer: Consumer, form: str) -> Callable[[], int]:
    if form == "arrow":
        return lambda: int(consumer.poll_arrow(timeout_s=_POLL_TIMEOUT_S).num_rows)
    return lambda: len(consumer.poll(timeout_s=_POLL_TIMEOUT_S, max_records=_RECORDS_A_POLL))


if __name__ == "__main__":
    load_main(run)
