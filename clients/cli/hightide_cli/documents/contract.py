"""The shapes of the documents about the contract."""

from collections.abc import Sequence
from typing import Annotated, TypedDict


class MethodDocument(TypedDict):
    """A method of the contract."""

    method: Annotated[str, "as in hightide.v1.BrokerService/Produce"]
    comment: Annotated[str | None, "what the contract says of it; null where it is not one of Hightide's"]
    request: Annotated[str, "the message that it takes"]
    response: Annotated[str, "the message that it answers"]
    client_streaming: Annotated[bool, "whether it takes several"]
    server_streaming: Annotated[bool, "whether it answers several"]


class MessageFieldDocument(TypedDict):
    """A field of a message."""

    name: Annotated[str, "of the field"]
    number: Annotated[int, "by which it is known on the wire"]
    type: Annotated[str, "as the contract spells it"]
    comment: Annotated[str | None, "what the contract says of it"]


class MessageDocument(TypedDict):
    """A message of the contract."""

    message: Annotated[str, "its full name"]
    comment: Annotated[str | None, "what the contract says of it"]
    fields: Annotated[Sequence[MessageFieldDocument], "in the order of the contract"]
