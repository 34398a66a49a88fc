"""The loads of `bench e2e`: one process sends records with the time of sending, another reads them and its
clock.

Both read CLOCK_MONOTONIC, which all processes of a machine share.
"""

import struct
import time
from typing import Any

from hightide import Consumer, Producer

from hightide_bench.loads.load_worker import load_main, say_ready
from hightide_bench.measuring.processor_time import ProcessorTime

_SENT_NS = struct.Struct("<q")
_POLL_TIMEOUT_S = 60.0


def run(configuration: dict[str, Any]) -> dict[str, Any]:
    """Run as the producer or the consumer."""
    return _produce(configuration) if configuration["role"] == "produce" else _consume(configuration)


def _produce(configuration: dict[str, Any]) -> dict[str, Any]:
    padding = bytes(max(configuration["record_bytes"] - _SENT_NS.size, 0))
    interval_s = 1 / configuration["records_per_s"]
    with Producer(configuration["bootstrap"], acks="all", linger_ms=0) as producer:
        started_s = time.monotonic()
        used = ProcessorTime.now(())
        for number in range(configuration["records"]):
            wait_s = started_s + number * interval_s - time.monotonic()
            if wait_s > 0:
                time.sleep(wait_s)
            producer.send(configuration["topic"], _SENT_NS.pack(time.monotonic_ns()) + padding)
        producer.flush()
        return {
            "client_cpu_s": ProcessorTime.now(()).since(used).client_s,
            "elapsed_s": time.monotonic() - started_s,
        }


def _consume(configuration: dict[str, Any]) -> dict[str, Any]:
    latencies_ms: list[float] = []
    with Consumer(configuration["bootstrap"], topics=[configuration["topic"]]) as consumer:
        consumer.seek_to_end()
        # What is sent before a position is known would not be read.
        for partition in consumer.assignment:
            consumer.position(partition)
        # The fetching has begun, too, before the first record is sent.
        consumer.poll(timeout_s=0.5)
        say_ready()
        broker_pids = configuration["broker_pids"]
        used = ProcessorTime.now(broker_pids)
        while len(latencies_ms) < configuration["records"]:
            records = consumer.poll(timeout_s=_POLL_TIMEOUT_S)
            now_ns = time.monotonic_ns()
            if not records:
                raise SystemExit(f"only {len(latencies_ms)} of {configuration['records']} records arrived")
            latencies_ms += [
                (now_ns - _SENT_NS.unpack_from(record.value or b"")[0]) / 1e6 for record in records
            ]
        used = ProcessorTime.now(broker_pids).since(used)
    warm = configuration["warm_records"]
    return {
        "latencies_ms": latencies_ms[warm:],
        "client_cpu_s": used.client_s,
        "broker_cpu_s": used.brokers_s,
    }


if __name__ == "__main__":
    load_main(run)
