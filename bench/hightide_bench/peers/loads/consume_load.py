"""One process that reads a topic that was filled before."""

import time
from typing import Any

from hightide_bench.loads.load_worker import load_main
from hightide_bench.measuring.processor_time import ProcessorTime
from hightide_bench.measuring.statistics import rate_figures
from hightide_bench.peers.loads.clients import BulkReader, clients_of


def run(configuration: dict[str, Any]) -> dict[str, float | None]:
    """Read a third of the records, go back to the beginning, and measure the reading of all."""
    records = configuration["records"]
    reader = clients_of(configuration).bulk_reader(configuration["topic"], configuration["partitions"])
    reader.rewind()
    _read(reader, records // 3)
    reader.rewind()
    used, began_s = ProcessorTime.now(configuration["broker_pids"]), time.monotonic()
    read = _read(reader, records)
    elapsed_s = time.monotonic() - began_s
    used = ProcessorTime.now(configuration["broker_pids"]).since(used)
    return rate_figures(
        records=read,
        size_bytes=read * configuration["record_bytes"],
        elapsed_s=elapsed_s,
        client_cpu_s=used.client_s,
        broker_cpu_s=used.brokers_s,
    )


def _read(reader: BulkReader, records: int) -> int:
    read = 0
    while read < records:
        count, _ = reader.read()
        if not count:
            raise SystemExit(f"only {read} of {records} records came")
        read += count
    return read


if __name__ == "__main__":
    load_main(run)
