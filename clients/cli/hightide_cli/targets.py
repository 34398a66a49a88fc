"""Which cluster a command line means, and why that one."""

from hightide_cli.contexts import Context, contexts_path, load_contexts
from hightide_cli.dev_cluster import the_running_one
from hightide_cli.options import Choices, Target

# The SDK's own default, spelled here since its module imports grpc; a test holds them together.
DEFAULT_BOOTSTRAP = "127.0.0.1:9092"


def resolve(chosen: Choices) -> Target:
    """Return the cluster; `Choices.target` says in which order. Raises ContextError where a context is named
    that there is not: another cluster than the one that is meant must not be taken for it."""
    if chosen.bootstrap is not None and chosen.bootstrap_is_said:
        return Target(chosen.bootstrap, "what --bootstrap says")
    if chosen.context is not None and chosen.context_is_said:
        return _of(_named(chosen.context), f"that of --context {chosen.context}")
    if chosen.bootstrap is not None:
        return Target(chosen.bootstrap, "what HIGHTIDE_BOOTSTRAP says")
    if chosen.context is not None:
        return _of(_named(chosen.context), f"that of HIGHTIDE_CONTEXT={chosen.context}")
    selected = load_contexts(contexts_path()).current()
    if selected is not None:
        return _of(selected, f"that of the selected context {selected.name}")
    running = the_running_one()
    if running is not None:
        from hightide_local.client_traces import trace_clients

        # What its clients wait for belongs into the traces that `trace show` finds there.
        trace_clients(running.trace_directory)
        return Target(
            running.bootstrap, "that of the cluster of `hightide dev up`", zookeeper=running.zookeeper
        )
    return Target(
        DEFAULT_BOOTSTRAP,
        "the default, as no other was said: see --bootstrap and `hightide context`",
        is_default=True,
    )


def _named(name: str) -> Context:
    return load_contexts(contexts_path()).named(name)


def _of(context: Context, origin: str) -> Target:
    return Target(context.bootstrap, origin, context.name, context.zookeeper)
