"""NAME=VALUE on the command line, given any number of times."""

from collections.abc import Sequence

import click


def config_pairs(texts: Sequence[str], option: str) -> dict[str, str]:
    """Parse what was given for this option. Raises click.BadParameter."""
    pairs = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", param_hint=option)
        pairs[name] = value
    return pairs
