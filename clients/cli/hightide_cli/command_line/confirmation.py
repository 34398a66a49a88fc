"""The question that is asked before data is destroyed."""

import click


def confirm(question: str, *, is_agreed: bool) -> None:
    """Ask on stderr, so that stdout has only results. `is_agreed` is the value of --yes. Raises
    click.ClickException if the answer is no, or if no person can answer."""
    if is_agreed:
        return
    try:
        answer = click.confirm(question, err=True)
    except click.Abort:
        click.echo(err=True)
        raise click.ClickException(
            "nothing was changed: nobody answered the question; give --yes to agree beforehand"
        ) from None
    if not answer:
        raise click.ClickException("nothing was changed")
