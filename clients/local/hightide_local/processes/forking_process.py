"""The process that imports the services' modules once and forks the services, which then import nothing.

The module `forking` starts it and is its only client. `python -m hightide_local.processes.forking_process FD
MODULE…` imports the modules and then reads requests from the socket FD. It forks for each request. The fork
takes the arguments, the environment and the directory of the request, waits until its gate opens, and then
does the same as `python -m MODULE ARGUMENT…`, or as `python FILE.py ARGUMENT…`.

gRPC, kazoo and the event loop start no thread when they are imported. The process checks before each fork
that it has only one thread.
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

#: The maximum size in bytes of a request, which has an environment and a command line, and of an answer.
MESSAGE_MAX = 1 << 17
#: The end of a program's name that is a file, and no module.
FILE_SUFFIX = ".py"
_POLL_S = 1.0


def main(descriptor: int, modules: Sequence[str]) -> list[str] | None:
    """Answer requests until the supervisor has ended, then return None. In each fork, return the module
    or the file to run and its arguments when the gate is open."""
    supervisor = os.getppid()
    for name in modules:
        importlib.import_module(name)
    # The garbage collector of a fork would otherwise write to these objects, and so copy their pages.
    gc.collect()
    gc.freeze()
    requests = socket.socket(fileno=descriptor)
    children: dict[int, int] = {}
    # Another child of the supervisor may hold the socket open, so the end of the socket alone is no sign.
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
                return _take_over(json.loads(message), descriptors, requests)
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
    with contextlib.suppress(BrokenPipeError):  # The supervisor has ended.
        requests.send(json.dumps({"ended": pid, "code": os.waitstatus_to_exitcode(status)}).encode())


def _take_over(request: dict[str, Any], descriptors: Sequence[int], requests: socket.socket) -> list[str]:
    """Make the fork like a new process for this command: session, output, environment, directory. Wait at the
    gate, and return the command."""
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
    # The supervisor may signal its process group from now on.
    requests.send(json.dumps({"forked": os.getpid()}).encode())
    requests.close()
    # The supervisor opens the gate when the watchdog knows this process. If it dies before, this process
    # ends.
    if not os.read(gate, 1):
        os._exit(1)
    os.close(gate)
    command: list[str] = request["command"]
    return command


if __name__ == "__main__":
    command = main(int(sys.argv[1]), sys.argv[2:])
    if command is not None:
        # Here and not within `main`, so that the program ends like any other program.
        sys.argv[:] = command
        if command[0].endswith(FILE_SUFFIX):
            sys.path[0] = os.path.dirname(command[0])
            runpy.run_path(command[0], run_name="__main__")
        else:
            # The module itself runs again as the main program. Its imports are there already.
            sys.modules.pop(command[0], None)
            runpy.run_module(command[0], run_name="__main__", alter_sys=True)
