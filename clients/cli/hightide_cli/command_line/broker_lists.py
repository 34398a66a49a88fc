"""Lists of brokers as users write them: `1,2,3`, and, for several partitions in order, `1,2,3:2,3,1`."""

import click


def parse_brokers(text: str, option: str) -> tuple[int, ...]:
    """Parse `1,2,3`. Raises click.BadParameter."""
    parts = [part.strip() for part in text.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        raise click.BadParameter(f"{text!r} is not a list of broker ids like 1,2,3", param_hint=option)
    return tuple(map(int, parts))


def parse_assignment(text: str) -> list[tuple[int, ...]]:
    """Parse `1,2,3:2,3,1`; a semicolon does as well as a colon. Raises click.BadParameter."""
    try:
        return [parse_brokers(brokers, "--assignment") for brokers in text.replace(";", ":").split(":")]
    except click.BadParameter:
        raise click.BadParameter(
            f"{text!r} is not like 1,2,3:2,3,1 (the brokers of each partition, the preferred leader first)",
            param_hint="--assignment",
        ) from None
