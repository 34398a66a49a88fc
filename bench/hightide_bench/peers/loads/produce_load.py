"""One process that sends as fast as it can, or at a rate."""

import time
from typing import Any, Final

from hightide_bench.loads.load_worker import load_main
from hightide_bench.measuring.processor_time import ProcessorTime
from hightide_bench.measuring.statistics import latency_figures, rate_figures
from hightide_bench.peers.loads.clients import BulkSender, clients_of
from hightide_bench.peers.loads.values import values_of

_SENDS_A_TURN: Final = 256
_TURN_S: Final = 0.01


class ProduceLoad:
    """Sends turns of records, and times the last record of each."""

    def __init__(self, sender: BulkSender) -> None:
        self._sender = sender
        self.latencies_ms: list[float] = []
        self.first_error: str | None = None

    def send_for(self, duration_s: float, records: int | None, records_per_s: float | None) -> int:
        """Send for this long, or until so many records are sent, and wait until all is acknowledged. Return
        how many were sent."""
        began_s = time.monotonic()
        sent = 0
        while sent < records if records is not None else time.monotonic() - began_s < duration_s:
            sent += self._turn()
            if records_per_s is not None:
                time.sleep(max(began_s + sent / records_per_s - time.monotonic(), 0))
        self._sender.flush()
        return sent

    def _turn(self) -> int:
        sent_s = time.monotonic()

        def acknowledged(error: str | None) -> None:
            self.latencies_ms.append((time.monotonic() - sent_s) * 1000)
            self.first_error = self.first_error or error

        return self._sender.send_all(acknowledged)


def run(configuration: dict[str, Any]) -> dict[str, float | None]:
    """Send for warm_s, then for measured_s or until `records` are sent."""
    record_bytes, records_per_s = configuration["record_bytes"], configuration["records_per_s"]
    # With a rate, a turn is a hundredth of a second of it, so that records do not go out in bursts.
    turn = _SENDS_A_TURN if records_per_s is None else max(1, round(records_per_s * _TURN_S))
    values = values_of(configuration["content"], record_bytes, turn)
    load = ProduceLoad(clients_of(configuration).bulk_sender(configuration["topic"], values))
    load.send_for(configuration["warm_s"], None, records_per_s)
    load.latencies_ms.clear()
    used, began_s = ProcessorTime.now(configuration["broker_pids"]), time.monotonic()
    records = load.send_for(configuration["measured_s"], configuration["records"], records_per_s)
    elapsed_s = time.monotonic() - began_s
    used = ProcessorTime.now(configuration["broker_pids"]).since(used)
    if load.first_error is not None:
        raise SystemExit(f"not delivered: {load.first_error}")
    rates = rate_figures(
        records=records,
        size_bytes=records * record_bytes,
        elapsed_s=elapsed_s,
        client_cpu_s=used.client_s,
        broker_cpu_s=used.brokers_s,
    )
    return {**rates, **latency_figures(load.latencies_ms)}


if __name__ == "__main__":
    load_main(run)
