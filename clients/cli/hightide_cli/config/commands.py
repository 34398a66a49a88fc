"""`hightide config`: the settings of topics and of servers, with their defaults and sources."""

import click

from hightide_cli.command_line.completing import setting_names, topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.config.show import show
from hightide_cli.config.topic_settings import ORIGIN_TOPIC, SettingInUse, settings_in_use
from hightide_cli.documents.cluster import TopicSettingDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document, wants_wide
from hightide_cli.printing.rendering import Json, table


@click.group()
def config() -> None:
    """Show and change the settings of topics; show those of running servers."""


common_options(config)
config.add_command(show)


@common_options
@config.command()
@click.argument("topic", metavar="TOPIC", shell_complete=topic_names)
@click.argument("names", metavar="[NAME…]", nargs=-1, shell_complete=setting_names)
@click.option("--own", "only_own", is_flag=True, help="Show only the settings that this topic sets.")
@click.pass_context
def get(ctx: click.Context, topic: str, names: tuple[str, ...], only_own: bool) -> None:
    """Show the settings of a topic. It shows their values, defaults, and where they come from.

    A topic that was created with three replicas or more sets min.insync.replicas. For a topic that does not,
    each broker has its own default: `hightide config show` shows it.

    \b
    hightide config get flights retention.ms -o wide
    """
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        (described,) = admin.describe_topics([topic])
    used = settings_in_use(described.configs)
    unknown = sorted(set(names) - {each.name for each in used})
    if unknown:
        known = ", ".join(each.name for each in used)
        raise click.ClickException(f"there is no topic setting {unknown[0]!r}; there are {known}")
    shown = [
        each
        for each in used
        if (not names or each.name in names) and (not only_own or each.origin == ORIGIN_TOPIC)
    ]
    if wants_document(ctx):
        emit(ctx, {"topic": topic, "settings": [view(TopicSettingDocument, each) for each in shown]})
        return
    click.echo(_table(shown, is_wide=wants_wide(ctx)))


@common_options
@config.command("set")
@click.argument("topic", metavar="TOPIC", shell_complete=topic_names)
@click.argument("settings", metavar="[NAME=VALUE…]", nargs=-1, shell_complete=setting_names)
@click.option(
    "--reset",
    metavar="NAME",
    multiple=True,
    shell_complete=setting_names,
    help="Reset this setting to its default; repeatable.",
)
@click.option("--dry-run", is_flag=True, help="Check the request, and change nothing.")
@click.pass_context
def set_(
    ctx: click.Context, topic: str, settings: tuple[str, ...], reset: tuple[str, ...], dry_run: bool
) -> None:
    """Change settings of a topic. Its brokers use them at once.

    \b
    hightide config set flights retention.ms=86400000 --reset segment.ms
    """
    wanted = {}
    for text in settings:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.BadParameter(f"{text!r} is not NAME=VALUE", ctx)
        wanted[name] = value
    if not wanted and not reset:
        raise click.UsageError("give NAME=VALUE or --reset NAME", ctx)
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        (before,) = admin.describe_topics([topic])
        configs = admin.alter_topic_config(topic, wanted, reset=reset, validate_only=dry_run)
    was = {each.name: each for each in settings_in_use(before.configs)}
    changed = [
        each
        for each in settings_in_use(configs)
        if each.name in {*wanted, *reset} or each.value != was[each.name].value
    ]
    if wants_document(ctx):
        documents: list[Json] = [
            {
                **view(TopicSettingDocument, each),
                "previous": was[each.name].value if each.name in was else None,
            }
            for each in changed
        ]
        emit(ctx, {"dry_run": dry_run, "topic": topic, "changed": documents})
        return
    for each in changed:
        previous = was[each.name].value if each.name in was else "nothing"
        verb = "would be" if dry_run else "is"
        click.echo(f"{topic}: {each.name} {verb} {each.value} ({each.origin}), was {previous}")


def _table(shown: list[SettingInUse], *, is_wide: bool) -> str:
    headings = ["setting", "value", "default", "origin"]
    rows = [(each.name, each.value, each.default or None, each.origin) for each in shown]
    if is_wide:
        return table(
            [*headings, "meaning"],
            [(*row, each.meaning or None) for row, each in zip(rows, shown, strict=True)],
        )
    return table(headings, rows)
