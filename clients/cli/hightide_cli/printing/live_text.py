"""Text that redraws itself on a terminal; nothing elsewhere."""

import sys
from contextlib import AbstractContextManager, nullcontext
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rich.live import Live


def live_text(*, is_wanted: bool, is_kept: bool) -> AbstractContextManager[Any]:
    """Return rich's Live as a context on a terminal, otherwise a context of None. If `is_kept`, the last text
    stays when the context ends. rich is imported here, since it costs more than most commands."""
    if not is_wanted or not sys.stdout.isatty():
        return nullcontext()
    from rich.console import Console
    from rich.live import Live

    return Live(console=Console(highlight=False), auto_refresh=False, transient=not is_kept)


def draw(live: "Live", text: str) -> None:
    """Show this text in place of the one before."""
    from rich.text import Text

    live.update(Text(text), refresh=True)
