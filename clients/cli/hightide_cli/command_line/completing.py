"""The names that a shell may complete: topics, groups, servers and contexts.

A shell that waits is worse than one that completes nothing, so each question to a cluster takes a third of a
second at most, and a failure completes nothing.
"""

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from hightide import Admin

_TIMEOUT_MS: Final = 300
_NAMES_MAX: Final = 1_000


def context_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The contexts whose names begin like this. Called by click when a shell asks."""

    def names() -> Iterable[str]:
        from hightide_cli.context.named_clusters import contexts_path, load_contexts

        return load_contexts(contexts_path()).by_name

    return _matching(names, incomplete)


def topic_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The topics whose names begin like this."""
    return _matching(lambda: _asked(ctx, lambda admin: admin.list_topics()), incomplete)


def group_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The consumer groups whose names begin like this."""
    return _matching(
        lambda: _asked(ctx, lambda admin: [each.group for each in admin.list_groups()]), incomplete
    )


def broker_ids(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The brokers whose ids begin like this."""
    return _matching(
        lambda: _asked(ctx, lambda admin: [str(each.broker_id) for each in admin.describe_cluster().brokers]),
        incomplete,
    )


def server_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The brokers, controllers and coordinators whose names begin like this, as in broker-1."""

    def names(admin: "Admin") -> Iterable[str]:
        described = admin.describe_cluster()
        yield from (f"broker-{each.broker_id}" for each in described.brokers)
        yield from (f"controller-{each.server_id}" for each in described.controllers)
        yield from (f"coordinator-{each.server_id}" for each in described.coordinators)

    return _matching(lambda: _asked(ctx, lambda admin: list(names(admin))), incomplete)


def setting_names(ctx: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    """The settings of topics whose names begin like this."""

    def names() -> Iterable[str]:
        from hightide_cli.config.topic_settings import TOPIC_SETTINGS

        return [each.name for each in TOPIC_SETTINGS]

    return _matching(names, incomplete)


def _asked(ctx: click.Context, ask: "Callable[[Admin], Iterable[str]]") -> Iterable[str]:
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx, _TIMEOUT_MS) as admin:
        return ask(admin)


def _matching(names: Callable[[], Iterable[str]], incomplete: str) -> list[str]:
    try:
        return sorted(each for each in names() if each.startswith(incomplete))[:_NAMES_MAX]
    except Exception:  # noqa: BLE001 - a shell shows what it is given: nothing is better than a traceback
        return []
