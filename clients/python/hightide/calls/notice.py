"""What a core tells the program's log. A core does not log: its driver does, outside of the client's lock."""

from enum import IntEnum
from typing import NamedTuple


class Level(IntEnum):
    """The levels of `logging` that cores use."""

    INFO = 20
    WARNING = 30
    ERROR = 40


class Notice(NamedTuple):
    """One line for the logger of this name."""

    logger: str
    level: Level
    text: str
