"""The content of znodes: JSON objects, which are checked when they are read.

Another process or a person may have written a znode, so it is input from outside. `Fields` checks each value
that is read, and raises `ZnodeGarbage`.
"""

import json
import re
from collections.abc import Mapping
from typing import Any, TypeAlias, TypeGuard

Json: TypeAlias = Mapping[str, Any]
INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1
#: The largest epoch that is accepted. A million later epochs still fit into the 32 bits of messages.
EPOCH_MAX = INT32_MAX - 1_000_000
_TOPIC_ID = re.compile(r"[0-9a-f]{32}")


class ZnodeGarbage(Exception):
    """The content of a znode is not valid. `znode` is its path or pattern, `reason` the fault."""

    def __init__(self, znode: str, reason: str) -> None:
        super().__init__(f"znode {znode}: {reason}")
        self.znode = znode
        self.reason = reason


def dump(content: Json) -> bytes:
    """The content of a znode as JSON without spaces."""
    return json.dumps(content, separators=(",", ":")).encode()


def external_fields(host: str, port: int) -> Json:
    """The address of a process for clients from outside, as fields of its znode; none if it has no such
    address."""
    return {"external_host": host, "external_port": port} if host else {}


def number_from_name(parent: str, name: str) -> int:
    """The number in the name of a child of `parent`. Raises ZnodeGarbage if the name is no number."""
    is_number = name.isascii() and name.isdigit() and len(name) <= 10 and int(name) <= INT32_MAX
    # "07" would be a second znode for the number 7.
    if not is_number or str(int(name)) != name:
        raise ZnodeGarbage(f"{parent}/{name}", "its name is not a number from 0 to 2^31-1, written plainly")
    return int(name)


class Fields:
    """The checked fields of one znode's JSON object."""

    __slots__ = ("_fields", "_znode")

    def __init__(self, znode: str, data: bytes) -> None:
        self._znode = znode
        try:
            fields = json.loads(data)
        except (ValueError, RecursionError) as error:
            raise ZnodeGarbage(znode, f"not JSON ({error})") from None
        if not isinstance(fields, dict):
            raise ZnodeGarbage(znode, "not a JSON object")
        self._fields: dict[str, Any] = fields

    def garbage(self, reason: str) -> ZnodeGarbage:
        """The error to raise for this znode."""
        return ZnodeGarbage(self._znode, reason)

    @property
    def names(self) -> frozenset[str]:
        """The names of the fields."""
        return frozenset(self._fields)

    def all(self) -> Mapping[str, object]:
        """All fields, unchecked."""
        return self._fields

    def value(self, name: str) -> object:
        """The field, of any type."""
        if name not in self._fields:
            raise self.garbage(f"field {name} is missing")
        value: object = self._fields[name]
        return value

    def integer(self, name: str, minimum: int = 0, maximum: int = INT32_MAX) -> int:
        """The field as a whole number within bounds."""
        value = self._fields.get(name)
        if type(value) is int and minimum <= value <= maximum:
            return value
        return self.checked_integer(self.value(name), f"field {name}", minimum, maximum)

    def checked_integer(self, value: object, what: str, minimum: int = 0, maximum: int = INT32_MAX) -> int:
        """The value as a whole number within bounds."""
        if type(value) is not int or not minimum <= value <= maximum:
            raise self.garbage(f"{what} is not a whole number from {minimum} to {maximum}")
        return value

    def port(self, name: str) -> int:
        """The field as a TCP port."""
        return self.integer(name, 1, 65535)

    def text(self, name: str) -> str:
        """The field as text that is not empty."""
        value = self.value(name)
        if not is_text(value) or not value:
            raise self.garbage(f"field {name} is not a text")
        return value

    def optional_text(self, name: str) -> str:
        """The field as text; empty if it is absent or not a text."""
        value = self._fields.get(name, "")
        return value if is_text(value) else ""

    def optional_address(self, host: str, port: str) -> tuple[str, int]:
        """The fields as a host and a TCP port, or ("", 0) if they are not valid. A process without a valid
        external address still counts."""
        text, number = self.optional_text(host), self._fields.get(port)
        return (text, number) if text and type(number) is int and 1 <= number <= 65535 else ("", 0)

    def mapping(self, name: str) -> Mapping[str, object]:
        """The field as a JSON object."""
        value = self.value(name)
        if not isinstance(value, dict):
            raise self.garbage(f"field {name} is not an object")
        return value

    def broker_ids(self, value: object, what: str) -> tuple[int, ...]:
        """A list of different broker ids."""
        if not isinstance(value, list):
            raise self.garbage(f"{what} is not a list of broker ids")
        for broker_id in value:
            if type(broker_id) is not int or not 0 <= broker_id <= INT32_MAX:
                raise self.garbage(f"{what} is not a list of broker ids")
        if len(set(value)) != len(value):
            raise self.garbage(f"{what} names a broker twice")
        return tuple(value)


def is_text(value: object) -> TypeGuard[str]:
    """Whether this is a text without lone surrogates, which JSON can have and protobuf messages cannot."""
    if not isinstance(value, str):
        return False
    return value.isascii() or not any("\ud800" <= character <= "\udfff" for character in value)


def topic_id_in(fields: Fields) -> bytes:
    """The topic id of a znode, from 32 hexadecimal digits. Raises ZnodeGarbage."""
    topic_id = fields.text("topic_id")
    if not _TOPIC_ID.fullmatch(topic_id):
        raise fields.garbage("topic_id is not 32 hexadecimal digits")
    return bytes.fromhex(topic_id)


def topic_id_from_name(parent: str, name: str) -> bytes:
    """The topic id in the name of a child of `parent`. Raises ZnodeGarbage if the name is no topic id."""
    if not _TOPIC_ID.fullmatch(name):
        raise ZnodeGarbage(f"{parent}/{name}", "its name is not a topic id of 32 hexadecimal digits")
    return bytes.fromhex(name)


def first_leader_epochs_out(first_epochs: Mapping[int, int]) -> Json:
    """The first leader epochs of partitions whose numbers were used before, as a field of their topic's
    znode; none if there are none."""
    if not first_epochs:
        return {}
    return {"first_leader_epochs": {str(partition): epoch for partition, epoch in first_epochs.items()}}


def first_leader_epochs_in(fields: Fields) -> dict[int, int]:
    """The same, read. Raises ZnodeGarbage."""
    if "first_leader_epochs" not in fields.names:
        return {}
    return {
        number_from_name("/brokers/topics/…/first_leader_epochs", name): fields.checked_integer(
            epoch, f"first_leader_epochs.{name}", maximum=EPOCH_MAX
        )
        for name, epoch in fields.mapping("first_leader_epochs").items()
    }
