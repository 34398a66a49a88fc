"""A server that answers calls with what a test says, to see what a command makes of a cluster's answers."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, TypeAlias

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from hightide.calls.tls_files import TlsFiles
from hightide.errors import ERROR_DOMAIN
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide.v1.metadata_pb2 import Endpoint

Answer: TypeAlias = Message | Sequence[Message | None]

#: gRPC's core may end the process when a server stops that has just accepted a connection.
_SERVING_TO_THE_END: Final[list[grpc.Server]] = []


class AnsweringServer(grpc.GenericRpcHandler):
    """Broker 1 and the controller in one: it names itself for both, and refuses as NOT_AUTHORIZED each method
    for which it has no answer. `answers` are by the name of the method; of several, each is given once, and
    the last one for good. None is a refusal, in the words of `refusal`."""

    refusal = "you may not call {name}"

    def __init__(self, answers: Mapping[str, Answer] = {}, tls: TlsFiles | None = None) -> None:
        server = grpc.server(ThreadPoolExecutor(4))
        server.add_generic_rpc_handlers((self,))
        if tls is None:
            self.port = server.add_insecure_port("127.0.0.1:0")
        else:
            pair = (Path(tls.key or "").read_bytes(), Path(tls.certificate or "").read_bytes())
            credentials = grpc.ssl_server_credentials([pair], Path(tls.ca).read_bytes(), True)
            self.port = server.add_secure_port("127.0.0.1:0", credentials)
        self.address = f"127.0.0.1:{self.port}"
        self.endpoint = Endpoint(id=1, host="127.0.0.1", port=self.port)
        metadata = GetMetadataResponse(cluster_id="c", brokers=[self.endpoint], controller=self.endpoint)
        self.answers: dict[str, Answer] = {"GetMetadata": metadata, **answers}
        server.start()
        _SERVING_TO_THE_END.append(server)

    def service(self, handler_call_details: Any) -> Any:
        """As grpc.GenericRpcHandler."""
        name = handler_call_details.method.rpartition("/")[2]

        def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
            told = self.answers.get(name)
            if told is not None and not isinstance(told, Message):
                self.answers[name] = told[1:] or told
                told = told[0]
            if told is None:
                _refuse(context, self.refusal.format(name=name))
                return b""
            return told.SerializeToString()

        return grpc.unary_unary_rpc_method_handler(answer)


def _refuse(context: grpc.ServicerContext, sentence: str) -> None:
    packed = AnyMessage()
    packed.Pack(ErrorInfo(reason="NOT_AUTHORIZED", domain=ERROR_DOMAIN))
    status = Status(code=grpc.StatusCode.PERMISSION_DENIED.value[0], message=sentence, details=[packed])
    context.set_trailing_metadata((("grpc-status-details-bin", status.SerializeToString()),))
    context.abort(grpc.StatusCode.PERMISSION_DENIED, sentence)
