"""The base of all errors of the SDK; see `hightide.errors`."""

import re
from collections.abc import Mapping
from typing import Any, ClassVar, Final

from hightide.v1 import errors_pb2
from hightide.v1.errors_pb2 import ErrorCode

_COMMAND: Final = re.compile("`[^`]+`")
_AGAIN: Final = "try again"


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

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle an error, so that it can cross processes (Spark's, multiprocessing's), whatever its
        constructor requires."""
        return _restored, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        """The message. It names each of address, topic, partition and next step once, even if the server's
        text names it too."""
        named = f"{self.topic}-{self.partition}" in self.message
        where = [
            f"{name} {value}"
            for name, value, is_said in (
                ("topic", self.topic, named or f"topic {self.topic!r}" in self.message),
                ("partition", self.partition, named),
                ("at", self.address, self._names_address()),
            )
            if value is not None and not is_said and f"{name} {value}" not in self.message
        ]
        text = f"{self.message.rstrip('.')} ({', '.join(where)})" if where else self.message.rstrip(".")
        return f"{text}. {self.next_step}" if self.next_step and not self._says_next_step() else text

    def _names_address(self) -> bool:
        if self.address is None:
            return False
        return re.search(rf"(?<![\w.-]){re.escape(self.address)}(?!\d)", self.message) is not None

    def _says_next_step(self) -> bool:
        """Whether the message already has a next step: servers add one to some messages, for callers without
        this SDK."""
        step, message = self.next_step.rstrip(".").lower(), self.message.lower()
        commands = _COMMAND.findall(step)
        if commands and all(each in message for each in commands):
            return True
        return step in message or (step.startswith(_AGAIN) and _AGAIN in message)


def _restored(cls: type[HightideError], args: tuple[object, ...], fields: Mapping[str, Any]) -> HightideError:
    error = cls.__new__(cls)
    error.args = args
    error.__dict__.update(fields)
    return error


# -- errors that servers answer with -------------------------------------------------------------------------


class ServerError(HightideError):
    """A server refused or failed the request; `code` is the one it named."""

    code: ClassVar[ErrorCode.ValueType] = errors_pb2.ERROR_CODE_UNSPECIFIED
