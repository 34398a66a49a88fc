"""A process that serves gRPC health on the port given, and computes for 2 s on its loop when SIGUSR1 comes;
for tests of the process watcher."""

import asyncio
import signal
import sys
import time

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.running import run_service
from hightide_runtime.serving.server import serve


def compute() -> None:
    ends_s = time.monotonic() + 2
    while time.monotonic() < ends_s:
        sum(range(10_000))
    print("computed", flush=True)


async def health_only(stopping: asyncio.Event) -> None:
    server = await serve(HostPort("127.0.0.1", int(sys.argv[1])), [])
    await server.set_serving(True)
    asyncio.get_running_loop().add_signal_handler(signal.SIGUSR1, compute)
    print("listening", flush=True)
    await stopping.wait()
    await server.stop(0)


if __name__ == "__main__":
    sys.exit(run_service("health", health_only))
