"""Every Python process stops altogether now and then, as on a machine that is too busy to run it.

With this directory on PYTHONPATH, Python imports this module at each start: of the tests, of services, of
commands. STALLS=MOST_MS:EVERY_S says how long a process stops at most, and how often on average.
"""

import ctypes
import os
import random
import threading

SETTING = "STALLS"


def _stall_for_ever(most_ms: float, every_s: float) -> None:
    # PyDLL keeps the interpreter's lock during the call, so that no thread of the process runs meanwhile.
    usleep = ctypes.PyDLL(None).usleep
    chance = random.Random(os.getpid())
    never = threading.Event()
    while not never.wait(chance.expovariate(1 / every_s)):
        # Squared, since on a real machine most pauses are short.
        usleep(int(chance.random() ** 2 * most_ms * 1_000))


if SETTING in os.environ:
    threading.Thread(
        target=_stall_for_ever, args=map(float, os.environ[SETTING].split(":")), daemon=True, name="stalls"
    ).start()
