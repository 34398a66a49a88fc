"""Keeps the newest grid, and what changed since the one before, as the bytes that windows are sent."""

import json

from hightide_console.looks import Survey
from hightide_console.views.grid import Grid, change_document, next_grid, whole_document


class GridKeeper:
    """One for all windows: a grid is encoded once, however many look at it."""

    def __init__(self) -> None:
        self._survey_number = 0
        self._before = self._grid = Grid()
        self._whole: bytes | None = None
        self._change: str | None = None

    @property
    def version(self) -> int:
        """The version of the newest grid."""
        return self._grid.version

    def take(self, survey: Survey | None) -> None:
        """Take in a survey; one that was taken in before costs nothing."""
        if survey is None or survey.number == self._survey_number:
            return
        self._survey_number = survey.number
        moving = frozenset(each.move.partition for each in survey.moves.moves)
        grid = next_grid(self._grid, survey.topics, survey.replicas, moving)
        if grid is not self._grid:
            self._before, self._grid = self._grid, grid
            self._whole = self._change = None

    def whole(self) -> bytes:
        """All of the grid, as JSON."""
        if self._whole is None:
            self._whole = _json(whole_document(self._grid)).encode()
        return self._whole

    def change_after(self, version: int) -> str | None:
        """What a window with this version needs, as JSON; None if it has to ask for all of it."""
        if version != self._before.version or version == self._grid.version:
            return None
        if self._change is None:
            self._change = _json(change_document(self._before, self._grid))
        return self._change


def _json(document: object) -> str:
    return json.dumps(document, separators=(",", ":"))
