"""What has been ordered and what arrived, to be read where a schedule fails.

Messages are told as they are, and put into words only where somebody reads: most stories nobody does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload


class Story(Sequence[str]):
    """Lines. What is told must never change."""

    def __init__(self) -> None:
        self._told: list[tuple[object, ...]] = []

    def append(self, line: str) -> None:
        """A line as it is."""
        self._told.append((line,))

    def tell(self, *words: object) -> None:
        """A line of these words, with blanks between."""
        self._told.append(words)

    @overload
    def __getitem__(self, index: int) -> str: ...

    @overload
    def __getitem__(self, index: slice) -> list[str]: ...

    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [_line(words) for words in self._told[index]]
        return _line(self._told[index])

    def __len__(self) -> int:
        return len(self._told)


def _line(words: tuple[object, ...]) -> str:
    return " ".join(map(str, words))
