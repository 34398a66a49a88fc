"""The cluster that a command line means, and the reason for it."""

from dataclasses import dataclass, replace

from hightide_cli.command_line.client_arguments import NO_FILES, ClientArguments, CredentialFiles
from hightide_cli.context.named_clusters import Context, contexts_path, load_contexts
from hightide_cli.dev.cluster import the_running_one

# The SDK's own default, spelled here since its module imports grpc; a test holds them together.
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


@dataclass(frozen=True, slots=True)
class Target:
    """The cluster that a command line means, and the source of that choice (`origin`), for people who wonder.
    `context` is its named cluster, if it is one; `zookeeper` is known for contexts and for `dev up`.
    `files` is empty where the environment decides."""

    bootstrap: str
    origin: str
    context: str | None = None
    zookeeper: str | None = None
    is_default: bool = False
    files: CredentialFiles = NO_FILES

    def client_arguments(self) -> ClientArguments:
        """Return the arguments for clients of this cluster. The default address is left to the SDK."""
        arguments = self.files.arguments()
        if not self.is_default:
            arguments["bootstrap"] = self.bootstrap
        return arguments


def resolve(
    bootstrap: str | None,
    context: str | None,
    files: CredentialFiles,
    *,
    bootstrap_is_said: bool,
    context_is_said: bool,
) -> Target:
    """Return the cluster that these options of a command line mean. `Choices.target` calls it, and documents
    their order. `…_is_said` means on the command line, otherwise in the environment. Raises ContextError if a
    context is named that does not exist: no other cluster may be taken for it."""
    target = _resolved(
        bootstrap, context, bootstrap_is_said=bootstrap_is_said, context_is_said=context_is_said
    )
    return replace(target, files=files) if files.is_said else target


def _resolved(
    bootstrap: str | None, context: str | None, *, bootstrap_is_said: bool, context_is_said: bool
) -> Target:
    if bootstrap is not None and bootstrap_is_said:
        return Target(bootstrap, "what --bootstrap says")
    if context is not None and context_is_said:
        return _of(_named(context), f"that of --context {context}")
    if bootstrap is not None:
        return Target(bootstrap, "what HIGHTIDE_BOOTSTRAP says")
    if context is not None:
        return _of(_named(context), f"that of HIGHTIDE_CONTEXT={context}")
    selected = load_contexts(contexts_path()).current()
    if selected is not None:
        return _of(selected, f"that of the selected context {selected.name}")
    running = the_running_one()
    if running is not None:
        from hightide_local.traces.client_traces import trace_clients

        # The waits of its clients belong in the traces that `trace show` finds there.
        trace_clients(running.trace_directory)
        client = None if running.certificates is None else running.certificates.client
        files = NO_FILES
        if client is not None:
            files = CredentialFiles(str(client.ca), str(client.certificate), str(client.key))
        return Target(
            running.bootstrap,
            "that of the cluster of `hightide dev up`",
            zookeeper=running.zookeeper,
            files=files,
        )
    return Target(
        DEFAULT_BOOTSTRAP,
        "the default, as no other was said: see --bootstrap and `hightide context`",
        is_default=True,
    )


def _named(name: str) -> Context:
    return load_contexts(contexts_path()).named(name)


def _of(context: Context, origin: str) -> Target:
    return Target(context.bootstrap, origin, context.name, context.zookeeper, files=context.files)
