"""A consumer in a group as a process of its own, so that it can be killed and stopped: it prints the number
of each record, then comes back for more."""

import json
import os
import signal
import subprocess
import sys
import threading
from typing import Any, Self

from hightide import Consumer


class GroupProcess:
    """The process, as tests see it."""

    def __init__(self, bootstrap: str, topic: str, group: str, **settings: Any) -> None:
        options = json.dumps({"bootstrap": bootstrap, "topics": topic, "group": group, **settings})
        self.numbers: list[int] = []
        self._process = subprocess.Popen(
            [sys.executable, __file__, options], stdout=subprocess.PIPE, text=True, bufsize=1
        )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            self.numbers.append(int(line))

    def kill(self) -> None:
        """End it as a crash does."""
        self._process.kill()
        self._process.wait()
        self._reader.join()
        assert self._process.stdout is not None
        self._process.stdout.close()

    def pause(self) -> None:
        """Let it stand still."""
        os.kill(self._process.pid, signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        os.kill(self._process.pid, signal.SIGCONT)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self.kill()


def main(options: dict[str, Any]) -> None:
    """Read until the end of the process."""
    with Consumer(options.pop("bootstrap"), **options) as consumer:
        while True:
            for record in consumer.poll(0.2, 50):
                sys.stdout.write(f"{int(record.value or b'-1')}\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
