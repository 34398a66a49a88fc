"""Another function in the place of one that keeps a rule."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import ModuleType
from typing import Any

__all__ = ["Replacement", "always", "replaced"]

Function = Callable[..., Any]
PACKAGES = ("hightide_broker", "hightide_controller", "hightide_coordinator", "hightide_leaders", "sim.")


@dataclass(frozen=True)
class Replacement:
    """`instead`, given the function that is in force, makes the one that takes its place."""

    where: ModuleType | type
    name: str
    instead: Callable[[Function], Function]


def always(value: object) -> Callable[[Function], Function]:
    """A function that has this answer to everything."""
    return lambda real: lambda *_, **__: value


@contextmanager
def replaced(replacement: Replacement) -> Iterator[None]:
    """The function is another one where it is defined, and wherever it was imported."""
    name = replacement.name
    real = getattr(replacement.where, name)
    wrong = replacement.instead(real)
    setattr(replacement.where, name, wrong)
    _exchange(name, real, wrong)
    try:
        yield
    finally:
        setattr(replacement.where, name, real)
        _exchange(name, wrong, real)  # Also in modules that were imported meanwhile.


def _exchange(name: str, old: Function, new: Function) -> None:
    for module in list(sys.modules.values()):
        if module.__name__.startswith(PACKAGES) and vars(module).get(name) is old:
            setattr(module, name, new)
