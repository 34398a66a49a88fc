"""The shell in which a reader works through one page: its blocks run in order, and what one leaves behind
(variables, the current directory, files) is there for the next."""

import contextlib
import json
import os
import select
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from docs.markdown import Fence
from docs.notation import Marks, is_as_expected, marks_of

_INTERPRETER = Path(__file__).with_name("python_session.py")
BLOCK_S = 300
#: What `timeout` says of a command that it had to interrupt.
_INTERRUPTED = 124


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of one block: the exit code, and what it printed to both streams."""

    exit_code: int
    output: str


class BlockError(AssertionError):
    """A block does not do what its page says."""


class SessionEndedError(Exception):
    """The shell or the interpreter of a page does not answer any more."""


class Session:
    """Blocks of one page, carried out one after the other. Its processes end with it."""

    def __init__(
        self,
        scratch: Path,
        environment: Mapping[str, str],
        *,
        substitute: Callable[[str], str] = lambda text: text,
        bootstrap: Callable[[], str] | None = None,
        block_s: float = BLOCK_S,
    ) -> None:
        """`substitute` puts the addresses of this cluster in the place of those that the pages show;
        `bootstrap` is what programs find in HIGHTIDE_BOOTSTRAP."""
        self._files = scratch / "blocks"
        self._directory = scratch / "reader"
        for directory in (self._files, self._directory):
            directory.mkdir(parents=True)
        # The reader is in the project's directory, where `make setup` has put the virtual environment.
        (self._directory / ".venv").symlink_to(sys.prefix)
        self._environment = dict(environment)
        self._substitute = substitute
        self._bootstrap = bootstrap
        self._block_s = block_s
        self._count = 0
        self._last_output = ""
        self._shell, self._shell_answers = self._start(["bash", "--noprofile", "--norc"])
        self._tell('set -o pipefail; trap \'echo "{\\"exit_code\\": $?}" >&3\' EXIT')
        self._python: tuple[subprocess.Popen[str], int] | None = None

    def follow(self, fence: Fence) -> Outcome | None:
        """Do what the page says at this block; None where there is nothing to do. Raises BlockError."""
        marks = marks_of(fence.info)
        text = self._substitute(fence.text)
        if marks.is_output:
            if not is_as_expected(text, self._last_output):
                raise BlockError(f"{fence.place} expects:\n{text}\nbut it was:\n{self._last_output}")
            return None
        if marks.file_name is not None:
            directory = Path(self._ask_for_state()["directory"])
            (directory / marks.file_name).write_text(text)
            return None
        if not marks.is_program:
            return None
        try:
            outcome = self._run(fence, marks, text)
        except SessionEndedError as error:
            raise BlockError(f"{fence.place}: {error}\n{fence.text}\nprinted:\n{self._printed()}") from None
        self._last_output = outcome.output
        if outcome.exit_code != marks.exit_code and not (
            marks.interrupted_after_s is not None and outcome.exit_code == _INTERRUPTED
        ):
            raise BlockError(
                f"{fence.place} ended with exit code {outcome.exit_code}, not {marks.exit_code}:\n"
                f"{fence.text}\nprinted:\n{outcome.output[-6000:]}"
            )
        return outcome

    def _run(self, fence: Fence, marks: Marks, text: str) -> Outcome:
        self._count += 1
        source = self._files / f"{self._count}.{'py' if marks.language == 'python' else 'sh'}"
        output = self._files / f"{self._count}.out"
        source.write_text(text)
        if marks.language == "python":
            exit_code = self._run_python(fence, source, output)
        else:
            exit_code = self._run_console(marks, source, output)
        return Outcome(exit_code, output.read_text(errors="replace") if output.exists() else "")

    def _printed(self) -> str:
        """What the block under way has printed so far."""
        output = self._files / f"{self._count}.out"
        return output.read_text(errors="replace")[-6000:] if output.exists() else ""

    def _run_console(self, marks: Marks, source: Path, output: Path) -> int:
        streams = f">'{output}' 2>&1 </dev/null"
        if marks.interrupted_after_s is not None:
            seconds = marks.interrupted_after_s
            command = f"timeout -s INT -k 60 {seconds} bash -eo pipefail '{source}' {streams}"
        elif marks.exit_code:
            command = f"(set -e; source '{source}') {streams}"
        else:
            # In the shell itself; where a command fails it ends there, as the trap tells.
            command = f"set -e; source '{source}' {streams}; set +e; true"
        self._tell(f'{command}; echo "{{\\"exit_code\\": $?}}" >&3')
        return int(self._hear(self._shell_answers, self._shell)["exit_code"])

    def _run_python(self, fence: Fence, source: Path, output: Path) -> int:
        if self._python is None:
            self._python = self._start([sys.executable, str(_INTERPRETER), "3"])
        process, answers = self._python
        block = {
            **self._ask_for_state(),
            "source": str(source),
            "output": str(output),
            "page": fence.page.name,
            "line": fence.line,
        }
        if self._bootstrap is not None:
            block["environment"].setdefault("HIGHTIDE_BOOTSTRAP", self._bootstrap())
        assert process.stdin is not None
        process.stdin.write(json.dumps(block) + "\n")
        process.stdin.flush()
        return int(self._hear(answers, process)["exit_code"])

    def _ask_for_state(self) -> dict[str, Any]:
        """The shell's current directory and exported variables."""
        state = self._files / "state"
        self._tell(f"(pwd; env -0) >'{state}'; echo '{{\"exit_code\": 0}}' >&3")
        self._hear(self._shell_answers, self._shell)
        directory, _, variables = state.read_text().partition("\n")
        pairs = (variable.partition("=") for variable in variables.split("\0") if variable)
        return {"directory": directory, "environment": {name: value for name, _, value in pairs}}

    def _start(self, command: list[str]) -> tuple["subprocess.Popen[str]", int]:
        """The process, and the end of a pipe whose other one is its file descriptor 3."""
        reading, writing = os.pipe()
        move = f"exec 3>&{writing} {writing}>&-; " if writing != 3 else ""
        log = self._files / f"{Path(command[0]).name}.log"
        try:
            with log.open("w") as stream:
                process = subprocess.Popen(
                    ["bash", "-c", f'{move}exec "$0" "$@"', *command],
                    stdin=subprocess.PIPE,
                    stdout=stream,
                    stderr=stream,
                    pass_fds=(writing,),
                    start_new_session=True,
                    cwd=self._directory,
                    env=self._environment,
                    text=True,
                )
        finally:
            os.close(writing)
        return process, reading

    def _tell(self, command: str) -> None:
        assert self._shell.stdin is not None
        self._shell.stdin.write(command + "\n")
        self._shell.stdin.flush()

    def _hear(self, answers: int, process: "subprocess.Popen[str]") -> dict[str, Any]:
        deadline = time.monotonic() + self._block_s
        line = b""
        while not line.endswith(b"\n"):
            ready, _, _ = select.select([answers], [], [], max(0.0, deadline - time.monotonic()))
            if not ready:
                raise SessionEndedError(f"it did not end within {self._block_s:g} s")
            part = os.read(answers, 1)
            if not part:
                raise SessionEndedError(f"its process ended with {process.poll()}")
            line += part
        answer: dict[str, Any] = json.loads(line)
        return answer

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        started = [(self._shell, self._shell_answers), *([self._python] if self._python else [])]
        for process, answers in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait(60)
            assert process.stdin is not None
            with contextlib.suppress(BrokenPipeError):
                process.stdin.close()
            os.close(answers)
