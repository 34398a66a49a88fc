"""The user's choices for the whole command line: the cluster, and the form of the results."""

from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.client_arguments import NO_FILES, ClientArguments, CredentialFiles

if TYPE_CHECKING:
    from hightide_cli.context.target import Target


class OutputFormat(Enum):
    """The form of a command's result: for people (wide: with more columns), or for programs."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    WIDE = "wide"


@dataclass(slots=True)
class Choices:
    """The user's choices for the whole command line; kept in click's context.

    `…_is_said` means that the choice was made on the command line; otherwise it is from the environment.
    """

    bootstrap: str | None = None
    bootstrap_is_said: bool = False
    context: str | None = None
    context_is_said: bool = False
    #: Only what the command line says: the SDK itself looks into the environment.
    files: CredentialFiles = NO_FILES
    output: OutputFormat = OutputFormat.TABLE
    #: The cluster that was meant, once it was asked for: for the sentence of a failure.
    resolved: "Target | None" = None

    def target(self) -> "Target":
        """Return the cluster that is meant. Raises ContextError.

        The command line takes precedence over the environment, and an address over a name: --bootstrap,
        --context, HIGHTIDE_BOOTSTRAP, HIGHTIDE_CONTEXT, the selected context, the cluster of `hightide dev
        up` where one runs, 127.0.0.1:9092. The files of TLS and of the token are those of the command line,
        else those of the context that is meant, else those of the environment.
        """
        if self.resolved is None:
            from hightide_cli.context.target import resolve

            self.resolved = resolve(
                self.bootstrap,
                self.context,
                self.files,
                bootstrap_is_said=self.bootstrap_is_said,
                context_is_said=self.context_is_said,
            )
        return self.resolved

    def client_arguments(self) -> ClientArguments:
        """Return the arguments for clients of the cluster that is meant. Raises ContextError."""
        return self.target().client_arguments()


def choices(ctx: click.Context) -> Choices:
    """Return what was chosen so far. Called by every command that prints or connects."""
    return ctx.find_root().ensure_object(Choices)
