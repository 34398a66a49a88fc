"""A process that serves gRPC health on the port given, and nothing else; for tests of the process watcher."""

import asyncio
import sys

from hightide_runtime.addresses import HostPort
from hightide_runtime.process.running import run_service
from hightide_runtime.serving.server import serve


async def health_only(stopping: asyncio.Event) -> None:
    server = await serve(HostPort("127.0.0.1", int(sys.argv[1])), [])
    await server.set_serving(True)
    print("listening", flush=True)
    await stopping.wait()
    await server.stop(0)


if __name__ == "__main__":
    sys.exit(run_service("health", health_only))
