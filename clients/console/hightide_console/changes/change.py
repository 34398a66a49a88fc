"""A change: what somebody fills in, and the command that it stands for. Pure.

A change is a command of the CLI and nothing else. So what is shown, what is tried and what is done are one
text, and a person can go on with it in a terminal.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final, TypeAlias

TEXT_MAX: Final = 1_000
LONG_TEXT_MAX: Final = 64 << 10

Values: TypeAlias = Mapping[str, str]
"""What was filled in, by the name of the field; nothing is "" ."""


class ChangeError(Exception):
    """What was filled in makes no command; the message says which field, and what it may be."""


@dataclass(frozen=True, slots=True)
class Field:
    """One field of a form. With `choices` it is one of them."""

    name: str
    label: str
    hint: str = ""
    default: str = ""
    is_required: bool = False
    is_long: bool = False
    choices: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Command:
    """The words of a command behind `hightide`, and what it reads from its input."""

    words: tuple[str, ...]
    stdin: str = ""


@dataclass(frozen=True, slots=True)
class Change:
    """One kind of change. `trial` and `deed` are the words that make of its command a dry run, and the real
    one. `look` is tried in place of a command that has no dry run. `loses` says what cannot be taken back."""

    name: str
    title: str
    meaning: str
    place: str
    fields: tuple[Field, ...]
    command: Callable[[Values], Command]
    trial: tuple[str, ...] = ("--dry-run",)
    deed: tuple[str, ...] = ()
    look: Callable[[Values], Command] | None = None
    loses: str = ""

    def tried(self, values: Values) -> Command:
        """The command that shows what would happen. Raises ChangeError."""
        if self.look is not None:
            return self.look(values)
        return _with(self.command(values), self.trial)

    def done(self, values: Values) -> Command:
        """The command that does it. Raises ChangeError."""
        return _with(self.command(values), self.deed)


def checked(change: Change, said: Mapping[str, str]) -> dict[str, str]:
    """The values of a form's fields, and of no others. Raises ChangeError."""
    values = {}
    for each in change.fields:
        value = said.get(each.name, each.default).replace("\r\n", "\n")
        value = value if each.is_long else value.strip()
        most = LONG_TEXT_MAX if each.is_long else TEXT_MAX
        if len(value) > most:
            raise ChangeError(f"{each.label}: {len(value):,} characters, and {most:,} is the most")
        if "\0" in value or (not each.is_long and not value.isprintable()):
            raise ChangeError(f"{each.label}: it has a character that no command line can have")
        if each.is_required and not value:
            raise ChangeError(f"{each.label}: it is missing")
        if each.choices and value not in {choice for choice, _ in each.choices}:
            raise ChangeError(f"{each.label}: “{value[:64]}” is not among the choices")
        values[each.name] = value
    return values


def name_of(values: Values, field_name: str) -> str:
    """A name that stands alone in a command line. A dash at its beginning would make an option of it."""
    name = values[field_name]
    if name.startswith("-"):
        raise ChangeError(f"“{name[:64]}” begins with a dash; use the command line for it")
    return name


def number_of(values: Values, field_name: str, label: str) -> str:
    """A whole number, as it stands in a command line. Raises ChangeError."""
    word = values[field_name]
    if not (word.isascii() and word.isdigit() and len(word) < 20):
        raise ChangeError(f"{label}: “{word[:64]}” is no whole number")
    return word


def option(name: str, values: Values, field_name: str) -> tuple[str, ...]:
    """`--name=value` as one word, or none where nothing was filled in."""
    return (f"{name}={values[field_name]}",) if values[field_name] else ()


def _with(command: Command, words: tuple[str, ...]) -> Command:
    return Command((*command.words, *words), command.stdin)
