"""One process that sends single records at an even rate on one thread, and polls them on another."""

import struct
import threading
import time
from typing import Any, Final

from hightide_bench.loads.load_worker import load_main
from hightide_bench.measuring.processor_time import ProcessorTime
from hightide_bench.measuring.statistics import latency_figures
from hightide_bench.peers.loads.clients import RecordSender, clients_of

_SENT_NS: Final = struct.Struct("<q")
_FIRST_POLL_S: Final = 1.0
_POLL_S: Final = 10.0


def run(configuration: dict[str, Any]) -> dict[str, float | None]:
    """Return the latencies from send() to poll(), without those of the first 2 s, and the processor time of a
    record."""
    rate, warm = configuration["records_per_s"], int(configuration["records_per_s"] * configuration["warm_s"])
    records = warm + max(int(rate * configuration["measured_s"]), 1)
    clients, topic = clients_of(configuration), configuration["topic"]
    reader = clients.record_reader(topic, configuration["partitions"])
    sender = clients.record_sender()
    # The fetching begins before the first record is sent.
    reader.poll(_FIRST_POLL_S)
    padding = bytes(configuration["record_bytes"] - _SENT_NS.size)
    used = ProcessorTime.now(configuration["broker_pids"])
    thread = threading.Thread(target=_send, args=(sender, topic, rate, records, padding), daemon=True)
    thread.start()
    latencies_ms: list[float] = []
    while len(latencies_ms) < records:
        values = reader.poll(_POLL_S)
        now_ns = time.monotonic_ns()
        if not values:
            raise SystemExit(f"only {len(latencies_ms)} of {records} records arrived")
        latencies_ms += [(now_ns - _SENT_NS.unpack_from(value)[0]) / 1e6 for value in values]
    thread.join()
    used = ProcessorTime.now(configuration["broker_pids"]).since(used)
    assert used.brokers_s is not None
    return {
        **latency_figures(latencies_ms[warm:]),
        "client_us_per_record": used.client_s / records * 1e6,
        "broker_us_per_record": used.brokers_s / records * 1e6,
    }


def _send(sender: RecordSender, topic: str, rate: float, records: int, padding: bytes) -> None:
    began_s = time.monotonic()
    for number in range(records):
        time.sleep(max(began_s + number / rate - time.monotonic(), 0))
        sender.send(topic, _SENT_NS.pack(time.monotonic_ns()) + padding)
    sender.flush()


if __name__ == "__main__":
    load_main(run)
