"""One ListOffsets RPC of a consumer: the offsets at which to begin, for some partitions that one broker
leads."""

from hightide.calls.call import MessageCall, Method
from hightide.consuming.fetch_call import FetchEntry
from hightide.v1.broker_service_pb2 import ListOffsetsRequest, ListOffsetsResponse


class LookUpCall(MessageCall[ListOffsetsResponse]):
    """A ListOffsets call, with its purpose."""

    __slots__ = ("entries",)

    def __init__(
        self, address: str, timeout_ms: int, entries: tuple[FetchEntry, ...], request: ListOffsetsRequest
    ) -> None:
        super().__init__(address, Method.LIST_OFFSETS, timeout_ms, request, ListOffsetsResponse)
        self.entries = entries
