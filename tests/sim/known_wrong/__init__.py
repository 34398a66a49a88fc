"""The algorithms that lose records: each rule that the product adds to a text, and the text's way without it.

A rule is taken out by putting other functions in the place of those that keep it, in this process and for as
long as `without` lasts. The product knows nothing of this.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Final

from sim.known_wrong import broker, controller, coordinator, leaders
from sim.known_wrong.replacing import replaced

__all__ = [
    "BROKER_RULES",
    "CONTROLLER_RULES",
    "COORDINATOR_RULES",
    "LEADERS_RULES",
    "V2_TO_THE_LETTER",
    "V3_TO_THE_LETTER",
    "without",
]

BROKER_RULES: Final = tuple(broker.WITHOUT)
CONTROLLER_RULES: Final = tuple(controller.WITHOUT)
COORDINATOR_RULES: Final = tuple(coordinator.WITHOUT)
LEADERS_RULES: Final = tuple(leaders.WITHOUT)
V3_TO_THE_LETTER: Final = (*BROKER_RULES, *CONTROLLER_RULES)
"""All that Hightide adds to V3. Without them committed records are lost."""
V2_TO_THE_LETTER: Final = (*BROKER_RULES, *LEADERS_RULES)
"""All that Hightide adds to V2."""

_WITHOUT: Final = {**broker.WITHOUT, **controller.WITHOUT, **coordinator.WITHOUT, **leaders.WITHOUT}


@contextmanager
def without(*rules: str) -> Iterator[None]:
    """Every core of this process runs without these rules."""
    with ExitStack() as stack:
        for rule in rules:
            for replacement in _WITHOUT[rule]:
                stack.enter_context(replaced(replacement))
        yield
