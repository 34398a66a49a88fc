"""What all errors of the SDK have in common; see `hightide.errors`."""

from collections.abc import Mapping
from typing import ClassVar

from hightide.v1 import errors_pb2
from hightide.v1.errors_pb2 import ErrorCode


class HightideError(Exception):
    """The root of all errors of the SDK."""

    retriable: ClassVar[bool] = False
    refresh_metadata: ClassVar[bool] = False
    next_step: ClassVar[str] = ""

    def __init__(
        self,
        message: str,
        *,
        topic: str | None = None,
        partition: int | None = None,
        address: str | None = None,
        metadata: Mapping[str, str] | None = None,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.topic = topic
        self.partition = partition
        self.address = address
        self.metadata: Mapping[str, str] = dict(metadata or {})

    def __str__(self) -> str:
        named = f"{self.topic}-{self.partition}" in self.message
        where = [
            f"{name} {value}"
            for name, value, is_said in (
                ("topic", self.topic, named or f"topic {self.topic!r}" in self.message),
                ("partition", self.partition, named),
                ("at", self.address, False),
            )
            if value is not None and not is_said and f"{name} {value}" not in self.message
        ]
        text = f"{self.message.rstrip('.')} ({', '.join(where)})" if where else self.message.rstrip(".")
        return f"{text}. {self.next_step}" if self.next_step else text


# -- what servers answer -------------------------------------------------------------------------------------


class ServerError(HightideError):
    """A server refused or failed the request; `code` is the one it named."""

    code: ClassVar[ErrorCode.ValueType] = errors_pb2.ERROR_CODE_UNSPECIFIED
