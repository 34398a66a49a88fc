"""The broker, with room for a twentieth of the unfinished calls of each plane: its main with another limit.

Run as a program with the flags of `hightide-broker`. A test fills this room within a second. With room for
ten thousand calls, the first of them end before the last have begun where the machine is slow.
"""

from __future__ import annotations

from functools import partial

import hightide_broker.broker as broker
from hightide_broker.main import main
from hightide_runtime.serving.server import ServerLimits, serve

CALLS_MAX = 500

if __name__ == "__main__":
    # The broker must use this name, or else it would have its usual limits.
    assert broker.serve is serve  # type: ignore[attr-defined]
    broker.serve = partial(serve, limits=ServerLimits(max_concurrent_rpcs=CALLS_MAX))  # type: ignore[attr-defined]
    main()
