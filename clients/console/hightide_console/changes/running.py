"""Carries out commands of the CLI as processes of their own, with the credentials of the console. Bounded in
time, in output and in number."""

import asyncio
import os
import shlex
import sys
from dataclasses import dataclass
from typing import Final

from hightide_cli.command_line.client_arguments import ClientArguments

from hightide_console.changes.change import Command

_TIMEOUT_S: Final = 90.0
OUTPUT_MAX: Final = 64 << 10
_CHUNK: Final = 16 << 10
_AT_ONCE_MAX: Final = 2
_ENVIRONMENT: Final = {"COLUMNS": "110", "NO_COLOR": "1", "TERM": "dumb", "PYTHONIOENCODING": "utf-8"}
_OPTIONS: Final = (
    ("bootstrap", "--bootstrap"),
    ("tls_ca", "--tls-ca"),
    ("tls_certificate", "--tls-certificate"),
    ("tls_key", "--tls-key"),
    ("token_file", "--token-file"),
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What a command said, and its exit code; None if it did not end in time."""

    output: str
    exit_code: int | None

    @property
    def is_well(self) -> bool:
        """Whether it did what it was to do."""
        return self.exit_code == 0


class CommandRunner:
    """Runs commands on one cluster. `cluster` is its address; the rest of the credentials is that of
    `arguments`, or of the environment as for any command."""

    #: -P: nothing is imported from the directory in which the console was started.
    program: tuple[str, ...] = ("-P", "-m", "hightide_cli")

    def __init__(self, cluster: str, arguments: ClientArguments) -> None:
        said = ClientArguments(bootstrap=cluster)
        said.update(arguments)
        self._words = tuple(f"{name}={said[key]}" for key, name in _OPTIONS if key in said)  # type: ignore[literal-required]
        self._turns = asyncio.Semaphore(_AT_ONCE_MAX)

    def text(self, command: Command) -> str:
        """The command as somebody types it into a shell."""
        line = shlex.join(["hightide", *command.words, *self._words])
        if not command.stdin:
            return line
        return f"printf '%s\\n' {shlex.quote(command.stdin.removesuffix(chr(10)))} | {line}"

    async def run(self, command: Command) -> Outcome:
        """Carry it out. Whoever waits for a turn waits as long as the others take."""
        async with self._turns:
            process = await asyncio.create_subprocess_exec(
                *(sys.executable, *self.program, *command.words, *self._words),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.STDOUT,
                env={**os.environ, **_ENVIRONMENT},
            )
            try:
                async with asyncio.timeout(_TIMEOUT_S):
                    output = await _said_by(process, command.stdin.encode())
                    await process.wait()
            except TimeoutError:
                return Outcome(
                    f"It has not ended after {_TIMEOUT_S:.0f} s. What it asked for may still happen.", None
                )
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        return Outcome(output, process.returncode)


async def _said_by(process: asyncio.subprocess.Process, stdin: bytes) -> str:
    """Feed a command, and read what it says to its end. The beginning is kept, the rest counted: a command
    that talks without end takes no memory, and no command waits for somebody to read it."""
    assert process.stdin is not None, "it is a pipe"
    assert process.stdout is not None, "it is a pipe"
    # asyncio sends it bit by bit, while the loop below reads.
    process.stdin.write(stdin)
    process.stdin.close()
    kept, left_out = bytearray(), 0
    while chunk := await process.stdout.read(_CHUNK):
        room = OUTPUT_MAX - len(kept)
        kept += chunk[:room]
        left_out += len(chunk[room:])
    text = kept.decode(errors="replace")
    return f"{text}\n… and {left_out:,} bytes more" if left_out else text
