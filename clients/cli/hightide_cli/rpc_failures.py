"""What a failed call says, as one sentence: the status, the server's own words, and the reason."""

from typing import Any

import grpc

from hightide_cli.rendering import printable

_METADATA_MAX = 20


def sentence_of_rpc_error(error: Any, address: str) -> str:
    """Called by `hightide rpc` for every grpc.RpcError."""
    if not isinstance(error, grpc.Call):
        return f"the call to {address} failed: {error!r}"
    code, details = error.code(), printable(error.details() or "")
    if code is grpc.StatusCode.UNAVAILABLE and _error_info(error) is None:
        return f"{address} cannot be reached: {details}"
    if code is grpc.StatusCode.DEADLINE_EXCEEDED:
        return f"{address} did not answer in time; --timeout gives it longer"
    sentence = f"{code.name if code is not None else 'UNKNOWN'}: {details}"
    info = _error_info(error)
    if info is None:
        return sentence
    facts = [f"{name}={value}" for name, value in sorted(info.metadata.items())[:_METADATA_MAX]]
    return f"{sentence} ({printable(', '.join([info.reason, *facts]))})"


def _error_info(error: Any) -> Any:
    """The google.rpc.ErrorInfo that came with the error, None where there is none or it cannot be read."""
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
