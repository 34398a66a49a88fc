"""The mechanism of options: names without case, values with types and bounds, and a refusal with a suggestion
for every name that is not known.

The source's options (`core.source_options`) and the sink's use it. An `Option` is also the key under which
its parsed value is found: `values[SUBSCRIBE]`.
"""

import difflib
import re
from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, Generic, TypeVar

from hightide_spark.errors import InvalidOptionError, MissingOptionError, UnknownOptionError

T = TypeVar("T")

_UNITS_MS: Final = {
    "": 1, "ms": 1, "s": 1_000, "m": 60_000, "min": 60_000, "h": 3_600_000, "d": 86_400_000,
}  # fmt: skip
# An error shows this many characters of a value.
_SHOWN_MAX: Final = 200
_DURATION: Final = re.compile(r"\s*(\d{1,15})\s*([a-z]*)\s*")


@dataclass(frozen=True, slots=True, eq=False)
class Option(Generic[T]):
    """One option. `parse` turns its text into its value, or raises ValueError with the allowed values. If the
    option is not given, its value is `default`; a `required` option must be given."""

    name: str
    parse: Callable[[str], T]
    default: T
    required: bool = False
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class ForeignOption:
    """An option of another system. It is refused, or ignored with a warning."""

    why: str
    """Why it is ignored, or what to use instead of a refused one."""
    is_refused: bool = False
    same: frozenset[str] = frozenset()
    """The values, in small letters, that ask for what happens anyway. Nothing is to be said about them."""
    unless: str | None = None
    """An option that replaces a refused one. If it is given, the refused one is ignored."""


class OptionValues:
    """The values of all options of a table; `values[OPTION]` has the option's type. `warnings` has a sentence
    for each reason to ignore options."""

    def __init__(self, given: Mapping[Option[Any], Any], warnings: tuple[str, ...] = ()) -> None:
        self._given = dict(given)
        self.warnings = warnings

    def __getitem__(self, option: Option[T]) -> T:
        value: T = self._given.get(option, option.default)
        return value

    def is_given(self, option: Option[Any]) -> bool:
        """Whether the user gave this option."""
        return option in self._given


class OptionTable:
    """The options of one purpose, such as "a streaming read". `ignored` are names that Spark itself puts
    among the options. `instead` has, for names that are for something else, what to do. `foreign` has the
    names of other systems."""

    def __init__(
        self,
        purpose: str,
        options: Iterable[Option[Any]],
        *,
        ignored: Iterable[str] = (),
        instead: Mapping[str, str] | None = None,
        foreign: Mapping[str, ForeignOption] | None = None,
    ) -> None:
        self._purpose = purpose
        self._options = tuple(options)
        self._by_name = {
            name.lower(): option for option in self._options for name in (option.name, *option.aliases)
        }
        self._ignored = frozenset(name.lower() for name in ignored)
        self._instead = {name.lower(): text for name, text in (instead or {}).items()}
        self._foreign = {name.lower(): (name, each) for name, each in (foreign or {}).items()}

    def read(self, given: Mapping[str, str]) -> OptionValues:
        """Check and parse what the user gave. Raises UnknownOptionError, MissingOptionError,
        InvalidOptionError, each naming the option."""
        values: dict[Option[Any], Any] = {}
        foreign: dict[str, str] = {}
        for name, text in given.items():
            option = self._by_name.get(name.lower())
            if option is None:
                if name.lower() in self._foreign:
                    foreign[name.lower()] = text
                elif name.lower() not in self._ignored:
                    raise UnknownOptionError(self._unknown(name))
                continue
            if option in values:
                raise InvalidOptionError(f"option {option.name} is given twice, the second time as {name!r}")
            try:
                values[option] = option.parse(text)
            except ValueError as error:
                raise InvalidOptionError(f"option {option.name} is {text[:_SHOWN_MAX]!r}; {error}") from error
        for option in self._options:
            if option.required and option not in values:
                raise MissingOptionError(f'{self._purpose} needs .option("{option.name}", …)')
        return OptionValues(values, self._warnings(foreign, {option.name for option in values}))

    def _warnings(self, foreign: Mapping[str, str], given: Collection[str]) -> tuple[str, ...]:
        """A sentence for each reason to ignore options of other systems. It shows no value: some are secrets.
        Raises UnknownOptionError for one that is refused."""
        ignored: dict[str, list[str]] = {}
        for lower, text in sorted(foreign.items()):
            name, each = self._foreign[lower]
            if text.strip().lower() in each.same:
                continue
            if each.is_refused and each.unless not in given:
                raise UnknownOptionError(f"option {name!r} has no meaning for {self._purpose}: {each.why}")
            why = f"{each.unless} is given" if each.is_refused else each.why
            ignored.setdefault(why, []).append(name)
        return tuple(f"{self._purpose} ignores {', '.join(names)}: {why}" for why, names in ignored.items())

    def _unknown(self, name: str) -> str:
        instead = self._instead.get(name.lower())
        if instead is not None:
            return f"option {name!r} has no meaning for {self._purpose}: {instead}"
        known = {lower: each for lower, (each, _) in self._foreign.items()}
        known |= {lower: option.name for lower, option in self._by_name.items()}
        close = difflib.get_close_matches(name.lower(), known, n=1, cutoff=0.6)
        hint = (
            f"did you mean {known[close[0]]!r}?"
            if close
            else "there are " + ", ".join(sorted(option.name for option in self._options))
        )
        return f"{self._purpose} has no option {name!r}; {hint}"


# -- parsers: each raises ValueError with the allowed values ------------------------------------------------


def text(value: str) -> str:
    """Any text that is not blank."""
    if not value.strip():
        raise ValueError("it may not be empty")
    return value.strip()


def boolean(value: str) -> bool:
    """true or false, in any case."""
    if value.strip().lower() not in ("true", "false"):
        raise ValueError("it may be true or false")
    return value.strip().lower() == "true"


def integer(least: int, most: int) -> Callable[[str], int]:
    """A whole number within bounds."""

    def parse(value: str) -> int:
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,19}\s*", value) or not least <= int(value) <= most:
            raise ValueError(f"it is a whole number from {least} to {most}")
        return int(value)

    return parse


def duration_ms(least_ms: int, most_ms: int) -> Callable[[str], int]:
    """A time such as 500ms, 30s, 15m, 2h, as Spark's own settings have it; without a unit it is in
    milliseconds."""

    def parse(value: str) -> int:
        match = _DURATION.fullmatch(value.lower())
        unit_ms = _UNITS_MS.get(match[2]) if match else None
        if match is None or unit_ms is None or not least_ms <= int(match[1]) * unit_ms <= most_ms:
            raise ValueError(
                f"it is a time such as 500ms, 30s, 15m or 2h, from {least_ms} ms to {most_ms} ms"
            )
        return int(match[1]) * unit_ms

    return parse


def one_of(*allowed: str) -> Callable[[str], str]:
    """One of a few words, in any case."""

    def parse(value: str) -> str:
        if value.strip().lower() not in allowed:
            raise ValueError(f"it may be {' or '.join(allowed)}")
        return value.strip().lower()

    return parse
