"""Templates of the pages. Everything that is put into one is escaped; none of them holds a script or a
style."""

from collections.abc import Mapping
from typing import Any, Final

from jinja2 import Environment, PackageLoader, StrictUndefined

from hightide_console.views import figures

_PARTS: Final = "parts"


class Rendering:
    """The templates, compiled once."""

    def __init__(self, constants: Mapping[str, Any]) -> None:
        self._environment = Environment(
            loader=PackageLoader("hightide_console"),
            autoescape=True,
            undefined=StrictUndefined,
            trim_blocks=True,
            lstrip_blocks=True,
        )
        self._environment.globals.update(constants)
        self._environment.filters["count"] = figures.count

    def page(self, name: str, values: Mapping[str, Any]) -> str:
        """A whole page."""
        return self._environment.get_template(f"{name}.html").render(values)

    def part(self, name: str, values: Mapping[str, Any]) -> str:
        """A part of a page, as streams send it when it has changed."""
        return self._environment.get_template(f"{_PARTS}/{name}.html").render(values)
