"""The limits of one principal."""

from dataclasses import dataclass, fields
from typing import Final


@dataclass(frozen=True, slots=True)
class Quota:
    """The limits of one principal, as hightide.v1.Quota describes them. None: no limit of its own."""

    produce_bytes_per_s: int | None = None
    fetch_bytes_per_s: int | None = None
    mutations_per_s: int | None = None
    calls_max: int | None = None
    connections_max: int | None = None

    def limits(self) -> dict[str, int]:
        """The limits that are set, by name."""
        return {name: value for name in LIMIT_NAMES if (value := getattr(self, name)) is not None}

    def over(self, default: "Quota") -> "Quota":
        """This quota, and the default for what it does not limit."""
        return Quota(**(default.limits() | self.limits()))


LIMIT_NAMES: Final = tuple(each.name for each in fields(Quota))
