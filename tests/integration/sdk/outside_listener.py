"""Starts a service with an external listener at 127.0.0.2, on the port that it has at 127.0.0.1.

Called by LocalCluster in the place of the service: `outside_listener.py hightide_broker.main --listen …`.
"""

import os
import sys

OUTSIDE = "127.0.0.2"


def main() -> None:
    """Become the service."""
    module, *arguments = sys.argv[1:]
    port = arguments[arguments.index("--listen") + 1].rpartition(":")[2]
    external = ["--external-listen", f"{OUTSIDE}:{port}"]
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments, *external])


if __name__ == "__main__":
    main()
