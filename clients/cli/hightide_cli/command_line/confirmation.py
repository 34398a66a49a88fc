"""Asking before something is destroyed."""

import click


def confirm(question: str, *, is_agreed: bool) -> None:
    """Ask on stderr, so that what is printed stays clean. `is_agreed` is what --yes says. Raises
    click.ClickException where the answer is no, or where nobody is there to give one."""
    if is_agreed:
        return
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise click.ClickException("nothing was changed: say --yes where nobody is there to answer") from None
    if not answer:
        raise click.ClickException("nothing was changed")
