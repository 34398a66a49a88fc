"""The option -o of `topic consume`: a form of output as everywhere, or a position, as kcat's users write it.
No position has the name of a form."""

from typing import Any, TypeVar

import click

from hightide_cli.command_line.choices import OutputFormat
from hightide_cli.records.positions import Position, parse_position

_CHOSEN = "hightide.position_by_output"
_NEITHER = (
    f"neither a form of output ({', '.join(each.value for each in OutputFormat)}) nor a position (earliest, "
    "latest, an offset, -N, or @TIME, s@TIME and e@TIME with a time like 2013-01-01T05:00:00Z or -15m)"
)

Decorated = TypeVar("Decorated", bound=click.Command)


def output_or_position(command: Decorated) -> Decorated:
    """Let -o of a command that has the common options take a position, too."""
    (option,) = (each for each in command.params if each.name == "output" and isinstance(each, click.Option))
    take_output = option.callback
    assert take_output is not None, "the common options note what is chosen"

    def take(ctx: click.Context, parameter: click.Parameter, value: str | None) -> Any:
        if value is None or value in {each.value for each in OutputFormat}:
            return take_output(ctx, parameter, value)
        try:
            parse_position(value)
        except click.BadParameter:
            raise click.BadParameter(f"{value!r} is {_NEITHER}", ctx, parameter) from None
        ctx.meta[_CHOSEN] = value
        return None

    option.type = click.STRING
    option.metavar = "FORM|POSITION"
    option.callback = take
    option.help = f"{option.help or ''} Or a POSITION, as --from.".strip()
    return command


def position_by_output(ctx: click.Context) -> tuple[Position, bool] | None:
    """The position that was given as -o, and whether it is where to stop (`e@TIME`); None if none was
    given."""
    text: str | None = ctx.meta.get(_CHOSEN)
    return None if text is None else (parse_position(text), text.startswith("e@"))
