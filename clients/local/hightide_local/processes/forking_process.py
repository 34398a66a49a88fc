"""A process that has imported what the services import, and forks them: a fork has nothing left to import.

The module `forking` starts it and is its only client.
`python -m hightide_local.processes.forking_process FD MODULE…` imports the modules and then answers on the
socket FD. For each request it forks. The fork takes the
arguments, the environment and the directory that the request names, waits until its gate opens, and then does
what `python -m MODULE ARGUMENT…` does. gRPC, kazoo and the event loop start with the service, not when they
are imported; that no other thread lives is checked before each fork.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import socket
import sys
from collections.abc import Sequence
from typing import Any

#: What a request and an answer may be long, in bytes: an environment and a command line.
MESSAGE_MAX = 1 << 17
_POLL_S = 1.0


def main(descriptor: int, modules: Sequence[str]) -> list[str] | None:
    """Answer requests until the supervisor is gone, then return None. Return in each fork as well, once its
    gate is open: the module to run and its arguments."""
    supervisor = os.getppid()
    for name in modules:
        importlib.import_module(name)
    # What is there by now stays: the collector need not touch it, and so copy it, in each fork.
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=descriptor)
    children: dict[int, int] = {}
    # A fork of the supervisor may hold the socket open, so that its end is not all there is to look for.
    while os.getppid() == supervisor:
        for ready in select.select([descriptor, *children], [], [], _POLL_S)[0]:
            if ready != descriptor:
                _reap(ready, children.pop(ready), requests)
                continue
            message, descriptors, _, _ = socket.recv_fds(requests, MESSAGE_MAX, 2)
            if not message:
                return None
            pid = _fork()
            if pid == 0:
                for each in children:
                    os.close(each)
                return _become(json.loads(message), descriptors, requests)
            for each in descriptors:
                os.close(each)
            children[os.pidfd_open(pid)] = pid
    return None


def _fork() -> int:
    threads = len(os.listdir("/proc/self/task"))
    if threads != 1:
        raise AssertionError(f"{threads} threads live in the process that forks; a fork has one of them")
    return os.fork()


def _reap(descriptor: int, pid: int, requests: socket.socket) -> None:
    os.close(descriptor)
    _, status = os.waitpid(pid, 0)
    with contextlib.suppress(BrokenPipeError):  # The supervisor is gone.
        requests.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _become(request: dict[str, Any], descriptors: Sequence[int], requests: socket.socket) -> list[str]:
    """Be as a process that was started for this command alone."""
    os.setsid()
    output, gate = descriptors
    nothing = os.open(os.devnull, os.O_RDONLY)
    for source, target in ((nothing, 0), (output, 1), (output, 2)):
        os.dup2(source, target)
    os.close(nothing)
    os.close(output)
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["directory"])
    # Whoever knows of it from here on may signal its group.
    requests.send(json.dumps({"forked": os.getpid()}).encode())
    requests.close()
    # The supervisor opens it once the watchdog knows this process. Where it dies before, this one just ends.
    if not os.read(gate, 1):
        os._exit(1)
    os.close(gate)
    command: list[str] = request["command"]
    return command


if __name__ == "__main__":
    become = main(int(sys.argv[1]), sys.argv[2:])
    if become is not None:
        # Outside of all that this module did, so that the program ends as any program does.
        sys.argv[:] = become
        # It is run anew, as the main program; what it imports is there.
        sys.modules.pop(become[0], None)
        runpy.run_module(become[0], run_name="__main__", alter_sys=True)
