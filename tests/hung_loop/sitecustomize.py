"""A Python process whose main thread hangs when it is told to, while its other threads go on.

With this directory on PYTHONPATH, Python imports this module at each start. HANG_ON names a FIFO: SIGUSR2
lets the main thread, and with it the event loop, wait in open(2) until somebody opens the FIFO for writing.
That is what a disk that does not answer looks like: one system call that does not return, without the
interpreter's lock, so that kazoo's thread goes on pinging ZooKeeper.
"""

import os
import signal

SETTING = "HANG_ON"


def _hang(*_: object) -> None:
    os.close(os.open(os.environ[SETTING], os.O_RDONLY))


if SETTING in os.environ:
    signal.signal(signal.SIGUSR2, _hang)
