"""A failed call as one sentence: the status, the server's own words, and the reason."""

from typing import Any

import click
import grpc
from hightide.calls.connection_failures import connection_failure, is_of_a_handshake
from hightide.calls.tls_files import TlsFiles
from hightide.transport.tls_diagnosis import diagnose
from hightide.transport.tls_failures import LOOK_TIMEOUT_S

from hightide_cli.command_line.exit_codes import EXIT_UNREACHABLE
from hightide_cli.printing.rendering import printable

_METADATA_MAX = 20


class NobodyAnswersError(click.ClickException):
    """The server that was to be called cannot be reached."""

    exit_code = EXIT_UNREACHABLE


def failure_of_rpc_error(error: Any, address: str, tls: TlsFiles | None) -> click.ClickException:
    """The error that `hightide rpc` raises for every grpc.RpcError of a channel with these files of TLS. It
    looks into a connection that failed, for a few seconds at most."""
    if not isinstance(error, grpc.Call) or not _is_nobody(error):
        return click.ClickException(sentence_of_rpc_error(error, address))
    if is_of_a_handshake(error.details() or ""):
        finding = diagnose(address, tls, LOOK_TIMEOUT_S)
        if finding is not None:
            return NobodyAnswersError(finding.text)
    return NobodyAnswersError(sentence_of_rpc_error(error, address))


def _is_nobody(error: Any) -> bool:
    return error.code() is grpc.StatusCode.UNAVAILABLE and _error_info(error) is None


def sentence_of_rpc_error(error: Any, address: str) -> str:
    """The same as a line."""
    if not isinstance(error, grpc.Call):
        return f"the call to {address} failed: {error!r}"
    code, details = error.code(), printable(error.details() or "")
    if _is_nobody(error):
        return f"{address} cannot be reached: {connection_failure(details, address)}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{address} did not answer in time; --timeout gives it longer"
    sentence = f"{code.name if code is not None else 'UNKNOWN'}: {details}"
    info = _error_info(error)
    if info is None:
        return sentence
    facts = [f"{name}={value}" for name, value in sorted(info.metadata.items())[:_METADATA_MAX]]
    return f"{sentence} ({printable(', '.join([info.reason, *facts]))})"


def _error_info(error: Any) -> Any:
    """The google.rpc.ErrorInfo of the error, or None if there is none or it cannot be read."""
    from google.protobuf.message import DecodeError
    from google.rpc import error_details_pb2
    from grpc_status import rpc_status

    try:
        status = rpc_status.from_call(error)
    except (ValueError, DecodeError):
        return None
    for detail in status.details if status is not None else ():
        info = error_details_pb2.ErrorInfo()
        if detail.Unpack(info):
            return info
    return None
