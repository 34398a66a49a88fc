"""`hightide acl`: the rules about who may do what to topics, groups and the cluster."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, get_args

import click

from hightide_cli.command_line.completing import group_names, topic_names
from hightide_cli.command_line.options import common_options
from hightide_cli.documents.access import AclDocument
from hightide_cli.documents.view import view
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import table

if TYPE_CHECKING:
    from hightide import Acl


@click.group()
def acl() -> None:
    """Show and change who may do what; ask who may."""


common_options(acl)


def _rules_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """The options that say what rules are about. Each operation is combined with each resource."""
    options = [
        click.option(
            "--allow",
            metavar="OPERATION",
            multiple=True,
            help="Allow this: read, write, create, delete, alter, describe, alter_configs, idempotent_write "
            "or all; repeatable.",
        ),
        click.option(
            "--deny", metavar="OPERATION", multiple=True, help="Deny this, whatever allows it; repeatable."
        ),
        click.option(
            "--topic", "topics", metavar="TOPIC", multiple=True, shell_complete=topic_names,
            help="For this topic, or * for all; repeatable.",
        ),
        click.option(
            "--topic-prefix", "topic_prefixes", metavar="PREFIX", multiple=True,
            help="For all topics whose names begin so; repeatable.",
        ),
        click.option(
            "--group", "groups", metavar="GROUP", multiple=True, shell_complete=group_names,
            help="For this consumer group, or * for all; repeatable.",
        ),
        click.option(
            "--group-prefix", "group_prefixes", metavar="PREFIX", multiple=True,
            help="For all groups whose names begin so; repeatable.",
        ),
        click.option("--cluster", is_flag=True, help="For the cluster as a whole."),
        click.option("--dry-run", is_flag=True, help="Check the request, and change nothing."),
    ]  # fmt: skip
    for option in reversed(options):
        command = option(command)
    return command


@common_options
@acl.command("ls")
@click.option("--principal", metavar="PRINCIPAL", help="Show only the rules of this one, as in client/alice.")
@click.option(
    "--topic", metavar="TOPIC", shell_complete=topic_names, help="Show only those about this topic."
)
@click.option("--group", metavar="GROUP", shell_complete=group_names, help="Show only those about it.")
@click.pass_context
def list_(ctx: click.Context, principal: str | None, topic: str | None, group: str | None) -> None:
    """Show the rules, and whether they are obeyed.

    \b
    hightide acl ls --topic orders
    """
    from hightide_cli.command_line.connections import open_admin

    with open_admin(ctx) as admin:
        listing = admin.describe_acls()
    shown = [
        each
        for each in listing.acls
        if (principal is None or each.principal == principal)
        and (topic is None or _is_about(each, "topic", topic))
        and (group is None or _is_about(each, "group", group))
    ]
    if wants_document(ctx):
        emit(
            ctx,
            {
                "enforced": listing.is_enforced,
                "super_users": list(listing.super_users),
                "acls": [view(AclDocument, each) for each in shown],
            },
        )
        return
    click.echo(_table(shown))
    if not listing.is_enforced:
        click.echo("nobody obeys these rules: start all processes with --authorization acls")


@common_options
@acl.command()
@click.argument("principal", metavar="PRINCIPAL")
@_rules_options
@click.pass_context
def add(ctx: click.Context, /, principal: str, dry_run: bool, **what: Any) -> None:
    """Add rules about what somebody may do. PRINCIPAL is client/NAME, client/* (every client) or *.

    \b
    hightide acl add client/alice --allow write --topic orders
    hightide acl add client/bob --allow read --topic-prefix orders. --group reports
    """
    _alter(ctx, _rules(ctx, principal, **what), dry_run=dry_run, is_added=True)


@common_options
@acl.command()
@click.argument("principal", metavar="PRINCIPAL")
@_rules_options
@click.pass_context
def rm(ctx: click.Context, /, principal: str, dry_run: bool, **what: Any) -> None:
    """Remove rules, named as they were added.

    \b
    hightide acl rm client/alice --allow write --topic orders
    """
    _alter(ctx, _rules(ctx, principal, **what), dry_run=dry_run, is_added=False)


@common_options
@acl.command()
@click.argument("principal", metavar="PRINCIPAL")
@click.argument("operation", metavar="OPERATION")
@click.option("--topic", metavar="TOPIC", shell_complete=topic_names, help="To this topic.")
@click.option("--group", metavar="GROUP", shell_complete=group_names, help="To this consumer group.")
@click.option("--cluster", is_flag=True, help="To the cluster as a whole.")
@click.pass_context
def check(
    ctx: click.Context, principal: str, operation: str, topic: str | None, group: str | None, cluster: bool
) -> None:
    """Show whether somebody may do something, and which rule decides.

    The command ends with 1 if it is not allowed.

    \b
    hightide acl check client/alice write --topic orders
    """
    from hightide_cli.command_line.connections import open_admin

    asked = [("topic", topic), ("group", group), ("cluster", "cluster" if cluster else None)]
    named = [(kind, name) for kind, name in asked if name is not None]
    if len(named) != 1:
        raise click.UsageError("give one of --topic, --group and --cluster", ctx)
    resource_type, name = named[0]
    with open_admin(ctx) as admin:
        decision = admin.check_access(principal, operation, resource_type, name)  # type: ignore[arg-type]
    if wants_document(ctx):
        emit(
            ctx,
            {
                "principal": principal,
                "operation": operation,
                "resource_type": resource_type,
                "name": name,
                "allowed": decision.is_allowed,
                "super_user": decision.is_super_user,
                "acl": None if decision.acl is None else view(AclDocument, decision.acl),
            },
        )
    else:
        if decision.is_super_user:
            why = "it is a super user"
        elif decision.acl is None:
            why = "no rule allows it"
        else:
            why = f"the rule {_sentence(decision.acl)}"
        verb = "may" if decision.is_allowed else "may not"
        what = "the cluster" if cluster else f"{resource_type} {name}"
        click.echo(f"{principal} {verb} {operation} {what}: {why}")
    if not decision.is_allowed:
        ctx.exit(1)


def _alter(ctx: click.Context, rules: list["Acl"], *, dry_run: bool, is_added: bool) -> None:
    from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS, open_admin

    with open_admin(ctx, ORDER_TIMEOUT_MS) as admin:
        altered = (
            admin.alter_acls(rules, validate_only=dry_run)
            if is_added
            else admin.alter_acls(remove=rules, validate_only=dry_run)
        )
    count = altered.added_count if is_added else altered.removed_count
    if wants_document(ctx):
        key = "added" if is_added else "removed"
        documents = [view(AclDocument, each) for each in rules]
        emit(ctx, {"dry_run": dry_run, key: count, "acls": documents})
        return
    for each in rules:
        click.echo(_sentence(each))
    verb = "would be" if dry_run else "are"
    change = "new" if is_added else "gone"
    click.echo(f"{count} of {len(rules)} {'rule' if len(rules) == 1 else 'rules'} {verb} {change}")


def _rules(
    ctx: click.Context,
    principal: str,
    allow: Sequence[str],
    deny: Sequence[str],
    topics: Sequence[str],
    topic_prefixes: Sequence[str],
    groups: Sequence[str],
    group_prefixes: Sequence[str],
    cluster: bool,
) -> list["Acl"]:
    """The rules that the options name. Raises UsageError."""
    from hightide.acls import Acl, OperationName

    resources = [
        *(("topic", name, "literal") for name in topics),
        *(("topic", name, "prefix") for name in topic_prefixes),
        *(("group", name, "literal") for name in groups),
        *(("group", name, "prefix") for name in group_prefixes),
        *([("cluster", "cluster", "literal")] if cluster else []),
    ]
    operations = [*(("allow", each) for each in allow), *(("deny", each) for each in deny)]
    for _, operation in operations:
        if operation not in get_args(OperationName):
            known = ", ".join(get_args(OperationName))
            raise click.UsageError(f"{operation!r} is none of {known}", ctx)
    if not resources or not operations:
        raise click.UsageError(
            "give --allow or --deny, and what it is about: --topic, --topic-prefix, --group, --group-prefix "
            "or --cluster",
            ctx,
        )
    return [
        Acl(principal, effect, operation, kind, name, pattern)  # type: ignore[arg-type]
        for effect, operation in operations
        for kind, name, pattern in resources
    ]


def _is_about(rule: "Acl", resource_type: str, name: str) -> bool:
    is_named = name.startswith(rule.name) if rule.pattern == "prefix" else rule.name in (name, "*")
    return rule.resource_type == resource_type and is_named


def _sentence(rule: "Acl") -> str:
    return f"{rule.effect} {rule.principal} {rule.operation} {_resource(rule)}"


def _resource(rule: "Acl") -> str:
    if rule.resource_type == "cluster":
        return "cluster"
    return f"{rule.resource_type} {rule.name}{'*' if rule.pattern == 'prefix' else ''}"


def _table(rules: Sequence["Acl"]) -> str:
    rows = [(each.principal, each.effect, each.operation, _resource(each)) for each in rules]
    return table(["principal", "effect", "operation", "resource"], rows)
