"""A Python process whose main thread hangs when it is told to, while its other threads go on.

With this directory on PYTHONPATH, Python imports this module at each start. HANG_AT names a directory.
SIGUSR2 lets the main thread, and with it the event loop, wait in flock(2) for the file there that has the
process id as its name. That is what a disk that does not answer looks like: one system call does not return,
without the interpreter's lock, so that kazoo's thread goes on pinging ZooKeeper.
"""

import fcntl
import os
import signal

SETTING = "HANG_AT"


def _hang(*_: object) -> None:
    with open(os.path.join(os.environ[SETTING], str(os.getpid())), "rb") as file:
        fcntl.flock(file, fcntl.LOCK_SH)


if SETTING in os.environ:
    signal.signal(signal.SIGUSR2, _hang)
