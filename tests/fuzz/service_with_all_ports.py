"""Starts a service with all the ports that it may have: an external listener at 127.0.0.2, and metrics for
Prometheus at 127.0.0.3, both on the port that it has at 127.0.0.1.

LocalCluster runs it in the place of a service: `service_with_all_ports.py hightide_broker.main --listen …`.
"""

import os
import sys
from pathlib import Path

OUTSIDE, METRICS = "127.0.0.2", "127.0.0.3"


def program(module: str) -> tuple[str, ...]:
    """The program to give to LocalCluster for a service."""
    return sys.executable, str(Path(__file__)), module


def main() -> None:
    """Become the service."""
    module, *arguments = sys.argv[1:]
    port = arguments[arguments.index("--listen") + 1].rpartition(":")[2]
    # Certificates of a local cluster name localhost, and not the address itself.
    outside = ["--external-listen", f"{OUTSIDE}:{port}", "--external-advertise", f"localhost:{port}"]
    os.execv(
        sys.executable,
        [sys.executable, "-m", module, *arguments, *outside, "--prometheus-listen", f"{METRICS}:{port}"],
    )


if __name__ == "__main__":
    main()
