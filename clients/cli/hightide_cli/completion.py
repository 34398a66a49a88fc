"""`hightide completion`: the scripts that make a shell complete commands, options and names."""

import click

from hightide_cli.command_line.options import common_options

_INSTALLING = """Print the script with which a shell completes commands, options and the names of topics,
groups, servers and contexts.

\b
bash   eval "$(hightide completion bash)"            in ~/.bashrc
zsh    eval "$(hightide completion zsh)"             in ~/.zshrc
fish   hightide completion fish | source             in ~/.config/fish/config.fish
"""


@common_options
@click.command(help=_INSTALLING)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script of one shell; it calls this command with _HIGHTIDE_COMPLETE set."""
    from click.shell_completion import get_completion_class

    made = get_completion_class(shell)
    assert made is not None, f"click knows {shell}"
    root = ctx.find_root().command
    source = made(root, {}, "hightide", "_HIGHTIDE_COMPLETE")
    # `source()` would start the shell, to see whether it is recent; the user's shell may be another one.
    click.echo(source.source_template % source.source_vars())
