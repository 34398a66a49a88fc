"""`hightide rpc`: any call of any server, by the server's own description of its services."""

import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from hightide_cli.command_line.choices import choices
from hightide_cli.command_line.options import common_options
from hightide_cli.printing.output import emit, wants_document
from hightide_cli.printing.rendering import Shape, printable_json, table

if TYPE_CHECKING:
    import grpc
    from google.protobuf.descriptor import MethodDescriptor, ServiceDescriptor

    from hightide_cli.rpc.reflection import ReflectedServer

_PACKAGE: Final = "hightide.v1"
_REQUEST_BYTES_MAX: Final = 16 << 20

_TIMEOUT = click.option(
    "--timeout",
    "timeout_s",
    type=click.FloatRange(min=0.01, max=3600),
    default=10.0,
    show_default=True,
    help="Seconds to wait for the answer.",
)


class _RpcGroup(click.Group):
    """`hightide rpc SERVICE/METHOD` is `hightide rpc call SERVICE/METHOD`."""

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """The command and its arguments. Called by click with the words after `rpc`."""
        if args and args[0] not in self.commands and any("/" in each or ":" in each for each in args[:2]):
            args = ["call", *args]
        return super().resolve_command(ctx, args)


@click.group(cls=_RpcGroup)
def rpc() -> None:
    """Call any method of any server, as grpcurl does: `hightide rpc BrokerService/GetMetadata`.

    ADDRESS is host:port. The default is a broker of the cluster; for services of the controller and of the
    coordinator it is the active one. You may leave out the package `hightide.v1`.
    """


common_options(rpc)


@common_options
@rpc.command("ls")
@click.argument("words", metavar="[ADDRESS] [SERVICE]", nargs=-1)
@_TIMEOUT
@click.pass_context
def list_services(ctx: click.Context, words: tuple[str, ...], timeout_s: float) -> None:
    """List the services of a server, or the methods of one service."""
    address, service = _address_and_name(ctx, words, needs_name=False)
    with _server(ctx, address, service, timeout_s) as (server, _):
        if service is None:
            names = server.services()
            if wants_document(ctx):
                emit(ctx, {"services": names})
            else:
                click.echo("\n".join(names))
            return
        from hightide_cli.rpc.descriptor_text import comments_of, method_document

        described = _service(server.pool_with(service), service)
        comments = comments_of(server.files())
        documents = [method_document(each, comments) for each in described.methods]
    if wants_document(ctx):
        emit(ctx, {"methods": documents})
        return
    rows = [(str(each["method"]), str(each["request"]), str(each["response"])) for each in documents]
    click.echo(table(["method", "request", "response"], rows))


@common_options
@rpc.command()
@click.argument("words", metavar="[ADDRESS] NAME", nargs=-1)
@_TIMEOUT
@click.pass_context
def describe(ctx: click.Context, words: tuple[str, ...], timeout_s: float) -> None:
    """Show a service, method, message or enum, with its comments."""
    from hightide_cli.rpc import descriptor_text as text

    address, name = _address_and_name(ctx, words, needs_name=True)
    assert name is not None, "a name was asked for"
    symbol = name.replace("/", ".")
    with _server(ctx, address, symbol, timeout_s) as (server, _):
        pool = server.pool_with(symbol)
        comments = text.comments_of(server.files())
    found = _found(pool, symbol)
    document: Shape
    match type(found).__name__.removesuffix("Descriptor"):
        case "Service":
            documents = [text.method_document(each, comments) for each in found.methods]
            shown, document = text.service_text(found, comments), {"methods": documents}
        case "Method":
            shown = text.method_text(found, comments)
            messages = [
                text.message_document(each, comments) for each in (found.input_type, found.output_type)
            ]
            document = {**text.method_document(found, comments), "messages": messages}
        case "Enum":
            shown = text.enum_text(found, comments)
            document = {"enum": found.full_name, "values": {each.name: each.number for each in found.values}}
        case _:
            shown, document = text.message_text(found, comments), text.message_document(found, comments)
    if wants_document(ctx):
        emit(ctx, document)
    else:
        click.echo(shown)


@common_options
@rpc.command()
@click.argument("words", metavar="[ADDRESS] SERVICE/METHOD", nargs=-1)
@click.option(
    "-d",
    "--data",
    metavar="JSON",
    default="{}",
    help="The request as JSON; @FILE reads it from a file, - from stdin.",
)
@click.option(
    "--utf8",
    "is_text",
    is_flag=True,
    help="Print and read bytes as text; bytes that are not UTF-8 stay base64.",
)
@click.option(
    "--defaults", "with_defaults", is_flag=True, help="Also print fields that are 0, empty or false."
)
@_TIMEOUT
@click.pass_context
def call(
    ctx: click.Context,
    words: tuple[str, ...],
    data: str,
    is_text: bool,
    with_defaults: bool,
    timeout_s: float,
) -> None:
    """Call a method, and print its answer, or each answer of a stream. Exit code 1: it is refused.

    Requests and answers are protobuf's JSON: bytes are base64, and numbers of 64 bits are strings.

    \b
    hightide rpc call BrokerService/GetMetadata -d '{"topics": ["flights"]}'
    """
    from hightide_cli.rpc.message_json import document_of

    address, name = _address_and_name(ctx, words, needs_name=True)
    assert name is not None, "a name was asked for"
    service, slash, method_name = name.rpartition("/")
    if not slash or not method_name:
        raise click.UsageError(f"{name!r} is not SERVICE/METHOD, as in BrokerService/GetMetadata", ctx)
    with _server(ctx, address, service, timeout_s) as (server, channel):
        pool = server.pool_with(service)
        methods = _service(pool, service).methods_by_name
        if method_name not in methods:
            known = ", ".join(sorted(methods))
            raise click.ClickException(f"{service} has no method {method_name}; it has: {known}")
        method = methods[method_name]
        request = _request(ctx, method, data, is_text)
        for answer in _answers(channel, method, request, timeout_s):
            document = document_of(answer, bytes_are_text=is_text, with_defaults=with_defaults)
            if wants_document(ctx):
                emit(ctx, document)
            else:
                click.echo(printable_json(json.dumps(document, indent=2, ensure_ascii=False)))


def _request(ctx: click.Context, method: "MethodDescriptor", data: str, is_text: bool) -> Any:
    from google.protobuf.message_factory import GetMessageClass

    from hightide_cli.rpc.message_json import MessageJsonError, parsed

    if method.client_streaming:
        raise click.UsageError(f"{method.name} takes a stream of requests, which cannot be sent here", ctx)
    try:
        document = json.loads(_data(data))
        return parsed(document, GetMessageClass(method.input_type)(), bytes_are_text=is_text)
    except (MessageJsonError, ValueError, RecursionError) as error:
        raise click.BadParameter(
            f"it is no {method.input_type.full_name}: {error}", ctx, param_hint="--data"
        ) from error


def _data(text: str) -> str:
    if text == "-":
        read = sys.stdin.read(_REQUEST_BYTES_MAX + 1)
    elif text.startswith("@"):
        with Path(text[1:]).open(encoding="utf-8") as file:
            read = file.read(_REQUEST_BYTES_MAX + 1)
    else:
        return text
    if len(read) > _REQUEST_BYTES_MAX:
        raise ValueError(f"it is longer than {_REQUEST_BYTES_MAX} characters")
    return read


def _answers(
    channel: "grpc.Channel", method: "MethodDescriptor", request: Any, timeout_s: float
) -> Iterator[Any]:
    from google.protobuf.message_factory import GetMessageClass

    path = f"/{method.containing_service.full_name}/{method.name}"
    parse = GetMessageClass(method.output_type).FromString
    if method.server_streaming:
        yield from channel.unary_stream(path, None, parse)(request.SerializeToString(), timeout=timeout_s)
    else:
        yield channel.unary_unary(path, None, parse)(request.SerializeToString(), timeout=timeout_s)


def _service(pool: Any, name: str) -> "ServiceDescriptor":
    """The descriptor of a service. The server may know the name for something else. Raises
    click.ClickException."""
    try:
        found: ServiceDescriptor = pool.FindServiceByName(name)
    except KeyError:
        raise click.ClickException(f"{name} is no service; `hightide rpc ls` lists the services") from None
    return found


def _found(pool: Any, symbol: str) -> Any:
    """The descriptor of a name. Raises click.ClickException."""
    service, _, method = symbol.rpartition(".")
    for find in (pool.FindServiceByName, pool.FindMessageTypeByName, pool.FindEnumTypeByName):
        try:
            return find(symbol)
        except KeyError:
            continue
    try:
        return pool.FindServiceByName(service).methods_by_name[method]
    except KeyError:
        raise click.ClickException(
            f"{symbol} is no service, method, message or enum; `hightide rpc ls` lists the services"
        ) from None


def _address_and_name(
    ctx: click.Context, words: Sequence[str], *, needs_name: bool
) -> tuple[str | None, str | None]:
    """Tell ADDRESS and NAME apart; an address has a colon, a name has none."""
    from hightide.calls.addresses import bootstrap_addresses

    if any(each.lstrip().startswith("{") for each in words):
        raise click.UsageError("give the request with --data", ctx)
    addresses = [each for each in words if ":" in each]
    names = [each for each in words if ":" not in each]
    if len(addresses) > 1 or len(names) > 1:
        raise click.UsageError(f"give one address and one name, not {' '.join(words)}", ctx)
    if needs_name and not names:
        raise click.UsageError("give a name, such as BrokerService/GetMetadata", ctx)
    address = bootstrap_addresses(addresses[0])[0] if addresses else None
    name = names[0] if names else None
    return address, name if name is None or "." in name else f"{_PACKAGE}.{name}"


@contextmanager
def _server(
    ctx: click.Context, address: str | None, name: str | None, timeout_s: float
) -> "Iterator[tuple[ReflectedServer, grpc.Channel]]":
    """The server to ask, and its channel, for as long as the block. Raises click.ClickException for what gRPC
    raises in the block."""
    import grpc
    from hightide.transport.opening import channel_opener

    from hightide_cli.command_line.connections import credentials_of
    from hightide_cli.rpc.failures import failure_of_rpc_error
    from hightide_cli.rpc.reflection import ReflectedServer
    from hightide_cli.rpc.token_channel import with_token

    where = address or _usual_address(ctx, name, timeout_s)
    credentials = credentials_of(choices(ctx).target().files)
    channel = with_token(channel_opener(credentials.tls, "hightide-cli")(where), where, credentials)
    try:
        yield ReflectedServer(channel, where, timeout_s), channel
    except grpc.RpcError as error:
        raise failure_of_rpc_error(error, where, credentials.tls) from error
    finally:
        channel.close()


def _usual_address(ctx: click.Context, name: str | None, timeout_s: float) -> str:
    """The address of a broker, or of the server that serves the named method. Raises HightideError,
    click.ClickException."""
    from hightide.calls.addresses import bootstrap_addresses

    from hightide_cli.cluster.metadata_probe import MetadataProbe, address_of, coordinators_in
    from hightide_cli.command_line.connections import credentials_of

    target = choices(ctx).target()
    addresses = bootstrap_addresses(target.bootstrap)
    role = next(
        (role for role in ("Controller", "Coordinator") if f"{_PACKAGE}.{role}Service" in (name or "")), None
    )
    with MetadataProbe(round(timeout_s * 1000), credentials_of(target.files)) as probe:
        metadata = probe.ask_any(addresses)
    if role is None:
        brokers = [address for each in metadata.brokers if (address := address_of(each))]
        return next((each for each in addresses if each in brokers), addresses[0])
    if role == "Controller":
        found = address_of(metadata.controller)
    else:
        found = next((each for each in coordinators_in(metadata) if each is not None), None)
    if found is None:
        raise click.ClickException(f"no {role.lower()} is active; give the ADDRESS to call")
    return found
