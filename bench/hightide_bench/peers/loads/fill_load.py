"""One process that writes one record to each partition of some topics, so that each has a log."""

import threading
from typing import Any

from hightide_bench.loads.load_worker import load_main
from hightide_bench.peers.loads.clients import clients_of


def run(configuration: dict[str, Any]) -> dict[str, Any]:
    """Write, wait until all is acknowledged, and return how many records were."""
    sender = clients_of(configuration).record_sender()
    errors: list[str] = []
    lock = threading.Lock()
    count = 0

    def acknowledged(error: str | None) -> None:
        nonlocal count
        with lock:
            count += error is None
            if error is not None:
                errors.append(error)

    for topic in configuration["topics"]:
        for partition in range(configuration["partitions"]):
            sender.send_acknowledged(topic, b"x", partition, acknowledged)
    sender.flush()
    if errors:
        raise SystemExit(f"{len(errors)} records were not acknowledged, the first because {errors[0]}")
    return {"records": count}


if __name__ == "__main__":
    load_main(run)
