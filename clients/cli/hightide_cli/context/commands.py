"""`hightide context`: names for clusters, and the choice of the one that commands use by default."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.client_arguments import CredentialFiles
from hightide_cli.command_line.completing import context_names
from hightide_cli.command_line.options import common_options
from hightide_cli.context.named_clusters import (
    Context,
    Contexts,
    contexts_path,
    load_contexts,
    store_contexts,
)
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import properties, table

if TYPE_CHECKING:
    from hightide_cli.documents.cluster import ContextDocument


@click.group()
def context() -> None:
    """Give clusters names, and choose the one that commands use by default."""


common_options(context)


@common_options
@context.command()
@click.argument("name")
@click.option(
    "--zookeeper",
    metavar="HOST:PORT[,…][/CHROOT]",
    help="The ZooKeeper of the cluster, for `hightide zk` and `doctor`.",
)
@click.option("--select", "is_selected", is_flag=True, help="Select the new context.")
@click.option("--force", is_flag=True, help="Replace a context that has this name.")
@click.pass_context
def add(ctx: click.Context, name: str, zookeeper: str | None, is_selected: bool, force: bool) -> None:
    """Give the cluster at --bootstrap a name. The first context is selected at once. No server is asked.

    The files of TLS and of the token, too, belong to the context: --tls-ca, --token-file and the others are
    kept as absolute paths.

    \b
    hightide context add prod --bootstrap broker-1:9092,broker-2:9092 --select
    """
    from hightide.calls.addresses import bootstrap_addresses

    # The address of the environment will do; that of another context or of `dev up` could be an accident.
    bootstrap = choices(ctx).bootstrap
    if bootstrap is None:
        raise click.UsageError("give the address of the cluster with --bootstrap HOST:PORT", ctx)
    path, known = _known()
    if name in known.by_name and not force:
        raise click.ClickException(
            f"there is a context {name} already, for {known.by_name[name].bootstrap}: "
            "take another name, or give --force to replace it"
        )
    added = Context(
        name,
        ",".join(bootstrap_addresses(bootstrap)),
        None if zookeeper is None else _zookeeper(zookeeper),
        _absolute(choices(ctx).files),
    )
    changed = known.with_added(added)
    if is_selected or known.selected is None:
        changed = changed.with_selected(name)
    store_contexts(path, changed)
    if wants_document(ctx):
        emit(ctx, _document(added, changed))
    else:
        how = "added and selected" if changed.selected == name else "added"
        click.echo(f"context {name} {how}: {added.bootstrap}")


@common_options
@context.command("ls")
@click.pass_context
def list_contexts(ctx: click.Context) -> None:
    """List all contexts."""
    _, known = _known()
    found = [known.by_name[name] for name in sorted(known.by_name)]
    if wants_document(ctx):
        emit(ctx, {"contexts": [_document(each, known) for each in found]})
        return
    rows = [
        ("*" if each.name == known.selected else "", each.name, each.bootstrap, each.zookeeper, each.files.ca)
        for each in found
    ]
    click.echo(table(["", "context", "bootstrap", "zookeeper", "tls ca"], rows))


@common_options
@context.command()
@click.argument("name", shell_complete=context_names)
@click.pass_context
def select(ctx: click.Context, name: str) -> None:
    """Make this the cluster that commands use by default."""
    path, known = _known()
    changed = known.with_selected(name)
    store_contexts(path, changed)
    if wants_document(ctx):
        emit(ctx, _document(changed.named(name), changed))
    else:
        click.echo(f"context {name} is selected: {changed.named(name).bootstrap}")


@common_options
@context.command()
@click.argument("name", required=False, shell_complete=context_names)
@click.pass_context
def show(ctx: click.Context, name: str | None) -> None:
    """Show one context. Without NAME, show the cluster that commands use now, and why."""
    _, known = _known()
    if name is not None:
        found = known.named(name)
        if wants_document(ctx):
            emit(ctx, _document(found, known))
        else:
            click.echo(
                properties(
                    [
                        ("context", found.name),
                        ("bootstrap", found.bootstrap),
                        ("zookeeper", found.zookeeper),
                        *_properties(found.files),
                        ("selected", found.name == known.selected),
                    ]
                )
            )
        return
    target = choices(ctx).target()
    files = _files_in_use(target.files)
    if wants_document(ctx):
        emit(
            ctx,
            {
                "context": target.context,
                "bootstrap": target.bootstrap,
                "zookeeper": target.zookeeper,
                "tls_ca": files.ca,
                "tls_certificate": files.certificate,
                "tls_key": files.key,
                "token_file": files.token,
                "origin": target.origin,
            },
        )
        return
    click.echo(
        properties(
            [
                ("context", target.context),
                ("bootstrap", target.bootstrap),
                ("zookeeper", target.zookeeper),
                *_properties(files),
                ("from", target.origin),
            ]
        )
    )


@common_options
@context.command("rm")
@click.argument("name", shell_complete=context_names)
@click.pass_context
def remove(ctx: click.Context, name: str) -> None:
    """Remove a context. The cluster itself is not touched."""
    path, known = _known()
    forgotten, changed = known.named(name), known.without(name)
    store_contexts(path, changed)
    if wants_document(ctx):
        emit(ctx, _document(forgotten, changed))
        return
    then = "; no context is selected now" if known.selected == name and changed.by_name else ""
    click.echo(f"context {name} forgotten{then}")


def _known() -> tuple[Path, Contexts]:
    path = contexts_path()
    return path, load_contexts(path)


def _document(each: Context, among: Contexts) -> "ContextDocument":
    return {
        "context": each.name,
        "bootstrap": each.bootstrap,
        "zookeeper": each.zookeeper,
        "tls_ca": each.files.ca,
        "tls_certificate": each.files.certificate,
        "tls_key": each.files.key,
        "token_file": each.files.token,
        "selected": each.name == among.selected,
    }


def _files_in_use(said: CredentialFiles) -> CredentialFiles:
    """The files that a client of the cluster uses: those that are said, else those of the environment. Raises
    InvalidArgumentError if one is missing."""
    from hightide_cli.command_line.connections import credentials_of

    chosen = credentials_of(said)
    if chosen.tls is None:
        return CredentialFiles(token=chosen.token_file)
    tls = chosen.tls
    return CredentialFiles(tls.ca, tls.certificate, tls.key, chosen.token_file)


def _absolute(said: CredentialFiles) -> CredentialFiles:
    """The same, for any working directory: a context is used from all of them."""
    used = _files_in_use(said)
    given = (used.ca, used.certificate, used.key, used.token)
    return CredentialFiles(*(None if each is None else str(Path(each).absolute()) for each in given))


def _properties(files: CredentialFiles) -> list[tuple[str, str | None]]:
    """Lines about TLS and the token, where they are used."""
    if not files.is_said:
        return []
    lines = [("tls ca", files.ca), ("tls certificate", files.certificate), ("tls key", files.key)]
    return lines if files.token is None else [*lines, ("token file", files.token)]


def _zookeeper(text: str) -> str:
    """Addresses and a chroot, in a form that kazoo can read. Other text is refused here."""
    if not text or len(text) > 1024 or any(each.isspace() or not each.isprintable() for each in text):
        raise click.BadParameter(f"{text!r} is not host:port[,host:port…][/chroot]", param_hint="--zookeeper")
    return text
