"""The load of `bench produce`: records as fast as one process can send them."""

import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from hightide import BulkDelivery, Delivery, HightideError, Producer

from hightide_bench.loads.load_worker import load_main
from hightide_bench.measuring.processor_time import ProcessorTime
from hightide_bench.measuring.statistics import latency_figures, rate_figures

# The acknowledgement of one record in so many is timed. Timing each one would itself cost much of the
# measured time.
_SENDS_A_TURN = 256
_ARROW_CHUNK_BYTES = 2 << 20
_TURN_S = 0.01


@dataclass(slots=True)
class ProduceOutcome:
    """The outcomes of the timed deliveries; filled by the producer's callbacks, read after a flush."""

    latencies_ms: list[float] = field(default_factory=list)
    first_error: HightideError | None = None

    def take(self, sent_s: float, delivery: Delivery | BulkDelivery) -> None:
        """Note the outcome of one timed delivery."""
        self.latencies_ms.append((time.monotonic() - sent_s) * 1000)
        self.first_error = self.first_error or delivery.exception(0)


def run(configuration: dict[str, Any]) -> dict[str, float | None]:
    """Send for warm_s, then for measured_s or until `records` are sent; wait until all is acknowledged."""
    topic, record_bytes = configuration["topic"], configuration["record_bytes"]
    outcome = ProduceOutcome()
    with Producer(
        configuration["bootstrap"],
        acks=configuration["acks"],
        idempotent=configuration["acks"] == "all",
        linger_ms=configuration["linger_ms"],
        compression=configuration["compression"],
    ) as producer:
        sender = _arrow_sender if configuration["api"] == "send_arrow" else _record_sender
        records_per_s = configuration.get("records_per_s")
        send_turn = sender(producer, topic, record_bytes, outcome, records_per_s)
        _send_for(configuration["warm_s"], None, send_turn, records_per_s)
        producer.flush()
        outcome.latencies_ms.clear()
        used, started_s = ProcessorTime.now(configuration["broker_pids"]), time.monotonic()
        records = _send_for(configuration["measured_s"], configuration["records"], send_turn, records_per_s)
        producer.flush()
        elapsed_s = time.monotonic() - started_s
        used = ProcessorTime.now(configuration["broker_pids"]).since(used)
    if outcome.first_error is not None:
        raise SystemExit(f"not delivered: {outcome.first_error}")
    rates = rate_figures(
        records=records,
        size_bytes=records * record_bytes,
        elapsed_s=elapsed_s,
        client_cpu_s=used.client_s,
        broker_cpu_s=used.brokers_s,
    )
    return {**rates, **latency_figures(outcome.latencies_ms)}


def _send_for(
    duration_s: float,
    records_wanted: int | None,
    send_turn: Callable[[], int],
    records_per_s: float | None,
) -> int:
    started_s = time.monotonic()
    ends_s = started_s + duration_s
    sent = 0
    while sent < records_wanted if records_wanted is not None else time.monotonic() < ends_s:
        sent += send_turn()
        if records_per_s is not None:
            time.sleep(max(0.0, min(started_s + sent / records_per_s, ends_s) - time.monotonic()))
    return sent


def _records_a_turn(most: int, records_per_s: float | None) -> int:
    """The records of one turn. With a given rate, a turn is a hundredth of a second of it, so that records do
    not go out in bursts."""
    return most if records_per_s is None else max(1, min(most, round(records_per_s * _TURN_S)))


def _record_sender(
    producer: Producer, topic: str, record_bytes: int, outcome: ProduceOutcome, records_per_s: float | None
) -> Callable[[], int]:
    count = _records_a_turn(_SENDS_A_TURN, records_per_s)
    values = [os.urandom(record_bytes) for _ in range(count)]
    send = producer.send

    def turn() -> int:
        sent_s = time.monotonic()
        for value in values:
            delivery = send(topic, value)

        delivery.add_done_callback(partial(outcome.take, sent_s))
        return count

    return turn


def _arrow_sender(
    producer: Producer, topic: str, record_bytes: int, outcome: ProduceOutcome, records_per_s: float | None
) -> Callable[[], int]:
    import pyarrow as pa

    rows = _records_a_turn(max(_ARROW_CHUNK_BYTES // record_bytes, 1), records_per_s)
    chunk = pa.record_batch({"value": pa.array([os.urandom(record_bytes) for _ in range(rows)], pa.binary())})

    def turn() -> int:
        sent_s = time.monotonic()
        producer.send_arrow(topic, chunk).add_done_callback(partial(outcome.take, sent_s))
        return rows

    return turn


if __name__ == "__main__":
    load_main(run)
