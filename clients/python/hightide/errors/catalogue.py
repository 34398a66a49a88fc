"""The catalogue: which class stands for which code of a server; see `hightide.errors`."""

from collections.abc import Mapping
from typing import Final

from hightide.errors import group, server
from hightide.errors.base import ServerError
from hightide.errors.server import UnknownServerError
from hightide.v1 import errors_pb2
from hightide.v1.errors_pb2 import ErrorCode

ERROR_DOMAIN: Final = "hightide"
_PREFIX: Final = "ERROR_CODE_"


def _catalogue() -> dict[int, type[ServerError]]:
    found = [*vars(group).values(), *vars(server).values()]
    classes = [each for each in found if isinstance(each, type) and issubclass(each, ServerError)]
    # A class below one of these has the code of that one.
    own = [each for each in classes if ServerError in each.__bases__ and each is not UnknownServerError]
    return {each.code: each for each in own}


CATALOGUE: Final[Mapping[int, type[ServerError]]] = _catalogue()


def from_code(
    code: int,
    message: str,
    *,
    topic: str | None = None,
    partition: int | None = None,
    address: str | None = None,
    metadata: Mapping[str, str] | None = None,
) -> ServerError:
    """The exception for an error code inside of a result. Called by the cores for each failed partition."""
    assert code != errors_pb2.ERROR_CODE_UNSPECIFIED, "unspecified means that nothing failed"
    cls = CATALOGUE.get(code, UnknownServerError)
    text = message or (cls.__doc__ or "").strip()
    if cls is UnknownServerError:
        text = f"error code {code}: {text}"
    return cls(text, topic=topic, partition=partition, address=address, metadata=metadata)


def from_reason(
    reason: str, message: str, *, address: str | None = None, metadata: Mapping[str, str] | None = None
) -> ServerError:
    """The exception for the `ErrorInfo` of a failed call: `reason` is a code's name without ERROR_CODE_."""
    details = dict(metadata or {})
    partition = details.get("partition", "")
    topic = details.get("topic")
    number = int(partition) if partition.isascii() and partition.isdigit() and len(partition) < 10 else None
    if _PREFIX + reason in ErrorCode.keys():  # noqa: SIM118 - a protobuf enum wrapper, not a dict
        code = ErrorCode.Value(_PREFIX + reason)
        if code in CATALOGUE:
            return from_code(code, message, topic=topic, partition=number, address=address, metadata=details)
    text = f"error {reason}: {message}"
    return UnknownServerError(text, topic=topic, partition=number, address=address, metadata=details)
