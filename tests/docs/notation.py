"""What the info string of a fenced block says to the tests (docs/README.md, "How the pages are tested")."""

import re
from dataclasses import dataclass

#: Blocks that are carried out.
PROGRAMS = frozenset({"console", "python"})
#: Blocks that are only shown, or saved (`file=`), or compared (`text output`).
SHOWN = frozenset({"text", "mermaid", "json", "yaml", "toml", "ini", "properties", "proto", "sql"})
_FLAGS = {"console": {"docker", "internet"}, "text": {"output"}}
_NUMBERS = {"console": {"exit", "timeout"}}
_FILE_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.-]*")


@dataclass(frozen=True, slots=True)
class Marks:
    """An info string, taken apart."""

    language: str
    #: The exit code that the block has.
    exit_code: int = 0
    #: The block goes on until Ctrl-C, which comes after so many seconds.
    interrupted_after_s: int | None = None
    #: It needs a container engine.
    needs_docker: bool = False
    #: It would get something from the internet.
    needs_internet: bool = False
    #: It shows what the block before it prints.
    is_output: bool = False
    #: It is the content of a file of this name.
    file_name: str | None = None

    @property
    def is_program(self) -> bool:
        return self.language in PROGRAMS and self.file_name is None


class MarkError(ValueError):
    """An info string that means nothing."""


def marks_of(info: str) -> Marks:
    language, *words = info.split() or [""]
    if language not in PROGRAMS | SHOWN:
        known = ", ".join(sorted(PROGRAMS | SHOWN))
        raise MarkError(f"a block is one of {known}, not {language or 'without a language'!r}")
    found: dict[str, object] = {}
    for word in words:
        name, equals, value = word.partition("=")
        if not equals and name in _FLAGS.get(language, ()):
            found[{"docker": "needs_docker", "internet": "needs_internet", "output": "is_output"}[name]] = (
                True
            )
        elif equals and name in _NUMBERS.get(language, ()) and value.isdigit():
            found[{"exit": "exit_code", "timeout": "interrupted_after_s"}[name]] = int(value)
        elif name == "file" and _FILE_NAME.fullmatch(value):
            found["file_name"] = value
        else:
            raise MarkError(f"a block of {language} has no mark {word!r}")
    return Marks(language, **found)  # type: ignore[arg-type]


def expression_of(expected: str) -> "re.Pattern[str]":
    """What the output must match: `…` stands for anything within a line, a line of `…` for any lines. Runs of
    spaces count as one, since the width of a column depends on what is in it."""
    lines = [" ".join(line.split()) for line in expected.strip().splitlines()]
    parts = [
        r"(?:[^\n]*\n)*?" if line == "…" else ".*".join(map(re.escape, line.split("…"))) + r"\n"
        for line in lines
    ]
    return re.compile("".join(parts))


def is_as_expected(expected: str, output: str) -> bool:
    lines = [" ".join(line.split()) for line in output.strip().splitlines()]
    return expression_of(expected).fullmatch("".join(f"{line}\n" for line in lines)) is not None
