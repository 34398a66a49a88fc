"""Starts a service with TLS and an external listener at 127.0.0.2, on the port that it has at 127.0.0.1. That
listener asks its clients for tokens.

Called by LocalCluster in the place of the service, by a command line that ends with `--token-keys FILE` and
the like: `outside_token_listener.py hightide_broker.main --listen …`.
"""

import os
import sys
from pathlib import Path

from hightide_local.certificates import CertificateAuthority

OUTSIDE = "127.0.0.2"


def main() -> None:
    """Become the service, with a certificate for both addresses."""
    module, *arguments = sys.argv[1:]
    port = arguments[arguments.index("--listen") + 1].rpartition(":")[2]
    certificate = Path(arguments[arguments.index("--tls-certificate") + 1])
    identity = certificate.stem.replace("-", "/")
    CertificateAuthority.open(certificate.parent).issue(identity, ["127.0.0.1", OUTSIDE], certificate.parent)
    external = ["--external-listen", f"{OUTSIDE}:{port}", "--external-tls-client-auth", "none"]
    external += ["--external-introspection"]
    os.execv(sys.executable, [sys.executable, "-m", module, *arguments, *external])


if __name__ == "__main__":
    main()
