"""The process `hightide-broker`."""

from __future__ import annotations

from typing import NoReturn

from hightide_runtime.process.service_process import run_process

from hightide_broker.broker import Broker
from hightide_broker.settings import BrokerSettings


def main() -> NoReturn:
    """Read the settings, run the broker until SIGTERM, exit with its code."""
    settings = BrokerSettings.from_command_line()
    run_process("broker", settings.broker_id, settings, Broker(settings).run)


if __name__ == "__main__":
    main()
