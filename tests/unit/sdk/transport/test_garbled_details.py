"""Details of an error that cannot be read are left out: a call of threads never ended, and a client of a loop
took it for a defect of its own."""

import asyncio
import queue
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc
import pytest
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from hightide.errors import ERROR_DOMAIN, AddressUnreachableError, HightideError, NotLeaderError
from hightide.transport.transport import AioTransport, Transport
from unit.sdk.transport.test_channels import conversation, converse, metadata_call

PATIENCE_S: Final = 30.0


def info(**metadata: str) -> AnyMessage:
    packed = AnyMessage()
    packed.Pack(ErrorInfo(reason="NOT_LEADER", domain=ERROR_DOMAIN, metadata=metadata))
    return packed


def said(detail: AnyMessage) -> bytes:
    status = Status(code=14, message="going away", details=[detail])
    return bytes(status.SerializeToString())


GARBLED: Final[dict[str, tuple[bytes, type[HightideError]]]] = {
    "no status": (b"\xff\xff\xff", AddressUnreachableError),
    "no details": (said(AnyMessage(type_url=info().type_url, value=b"\xff\xff")), AddressUnreachableError),
    "no number": (said(info(partition="²")), NotLeaderError),
    "a number without end": (said(info(partition="9" * 5_000)), NotLeaderError),
}


class Garbling(grpc.GenericRpcHandler):
    """Refuses every call with these details."""

    def __init__(self, details: bytes) -> None:
        self._details = details
        self._server = grpc.server(ThreadPoolExecutor(2))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self._server.start()

    def service(self, handler_call_details: Any) -> Any:
        if handler_call_details.method.endswith("RegisterConsumer"):
            return grpc.stream_stream_rpc_method_handler(self._refuse)
        return grpc.unary_unary_rpc_method_handler(self._refuse)

    def _refuse(self, _: Any, context: grpc.ServicerContext) -> Any:
        context.set_trailing_metadata((("grpc-status-details-bin", self._details),))
        context.abort(grpc.StatusCode.UNAVAILABLE, "going away")

    def stop(self) -> None:
        self._server.stop(0).wait()


@pytest.fixture(params=GARBLED)
def garbling(request: pytest.FixtureRequest) -> Iterator[tuple[str, type[HightideError]]]:
    details, expected = GARBLED[request.param]
    server = Garbling(details)
    yield server.address, expected
    server.stop()


def test_a_call_ends_with_an_error(garbling: tuple[str, type[HightideError]]) -> None:
    address, expected = garbling
    transport = Transport()
    outcomes: queue.SimpleQueue[object] = queue.SimpleQueue()
    transport.start(metadata_call(address), b"", lambda _, outcome: outcomes.put(outcome))
    assert type(outcomes.get(timeout=PATIENCE_S)) is expected
    with pytest.raises(expected):
        transport.run(metadata_call(address))
    assert type(conversation(transport, address)) is expected
    transport.close()


def test_on_a_loop_a_call_ends_with_an_error(garbling: tuple[str, type[HightideError]]) -> None:
    address, expected = garbling

    async def act() -> None:
        transport = AioTransport()
        with pytest.raises(expected):
            await transport.run(metadata_call(address))
        with pytest.raises(HightideError):  # gRPC itself looks into those of a stream.
            await converse(transport, address)
        await transport.close()

    asyncio.run(act())
