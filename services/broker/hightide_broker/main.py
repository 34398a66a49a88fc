"""The process `hightide-broker`."""

from __future__ import annotations

import asyncio
import gc
from typing import NoReturn

from hightide_runtime.logs import set_up_logging
from hightide_runtime.metrics import Metrics
from hightide_runtime.running import end_process, run_service
from hightide_runtime.telemetry import Telemetry

from hightide_broker.broker import Broker
from hightide_broker.settings import BrokerSettings


def main() -> NoReturn:
    """Read the settings, run the broker until SIGTERM, exit with its code."""
    settings = BrokerSettings.from_command_line()
    name = f"broker-{settings.broker_id}"
    set_up_logging(settings.log_level, name)
    # Ten thousand replicas are a million objects that live for ever; the collector need not look at them
    # with every 700 new ones. What the data path allocates is freed by reference counts.
    gc.set_threshold(100_000, 50, 100)
    end_process(run_service("hightide-broker", lambda stopping: _serve(settings, stopping)))


async def _serve(settings: BrokerSettings, stopping: asyncio.Event) -> None:
    instance = str(settings.broker_id)
    telemetry = Telemetry.set_up("broker", instance)
    metrics = Metrics.set_up("broker", instance, settings.prometheus_listen)
    try:
        await Broker(settings, telemetry, metrics).run(stopping)
    finally:
        telemetry.shut_down()
        metrics.shut_down()


if __name__ == "__main__":
    main()
