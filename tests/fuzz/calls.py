"""The attack by calls: any method of any service, at any port, with valid and mutated messages."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc
from adversary.batches import good_batch
from adversary.methods import Method, all_methods, library_methods
from fuzz.attack import Attack, Finding, shown
from fuzz.channels import open_channel
from fuzz.live_cluster import LiveCluster
from fuzz.messages import MessageMaker
from fuzz.plan import RPC, AttackPlan, Port
from hightide_runtime.access.rules import rule_of

_CALLS_PER_CHANNEL: Final = 150
_TIMEOUTS_S: Final = (0.05, 1.0, 3.0)
_ANSWERS_MAX: Final = 20
_SERVES: Final = {
    "broker": {"BrokerService", "ReplicaService", "BrokerControlService", "CallStreamService"},
    "controller": {"ControllerService"},
    "coordinator": {"CoordinatorService"},
}
_SERVED_BY_ALL: Final = {"ServerService", "Health", "ServerReflection", "Channelz"}
#: A gRPC server answers so by itself where an exception escapes; our servers say INTERNAL.
_MISTAKES: Final = (grpc.StatusCode.UNKNOWN, grpc.StatusCode.INTERNAL, grpc.StatusCode.DATA_LOSS)


class CallAttack(Attack):
    """Sends requests, and finds answers that are the server's mistake."""

    def __init__(self, name: str, plan: AttackPlan, live: LiveCluster) -> None:
        super().__init__(name, f"{plan.seed} {name}")
        self._plan, self._live = plan, live
        self._maker = MessageMaker(self.chance, live.ids)
        self._ports = [port for port in plan.ports if port.kind == RPC]
        self._methods = all_methods() + library_methods()
        self._channel: grpc.Channel | None = None
        self._port = self._ports[0]
        self._calls = 0

    def strike(self) -> str:
        """One call."""
        if self._channel is None or self._calls % _CALLS_PER_CHANNEL == 0:
            self.close()
            self._port = self.chance.choice(self._ports)
            self._channel = open_channel(self._plan, self._port)
        self._calls += 1
        method = self._method_for(self._port)
        self._maker.live = self._live.ids
        if method.streaming:
            return self._stream(method)
        payload = self._payload(method)
        call: Any = self._channel.unary_unary(method.path)
        try:
            call(payload, timeout=self.chance.choice(_TIMEOUTS_S), metadata=self._metadata())
        except grpc.RpcError as error:
            return self._judged(method, payload, error)
        return "OK"

    def _method_for(self, port: Port) -> Method:
        kind = port.process.partition("-")[0]
        served = [
            each
            for each in self._methods
            if each.service.rpartition(".")[2] in {*_SERVES[kind], *_SERVED_BY_ALL}
            and self._may_send(each, port)
        ]
        return self.chance.choice(served if self.chance.random() < 0.9 else self._methods_for_strangers(port))

    def _methods_for_strangers(self, port: Port) -> list[Method]:
        return [each for each in self._methods if self._may_send(each, port)]

    def _may_send(self, method: Method, port: Port) -> bool:
        """Whether the call may be obeyed without harm to what is judged: a plaintext internal listener obeys
        whoever reaches it."""
        if self._plan.may_command or self._plan.tls or port.is_external or not is_ours(method):
            return True
        return rule_of(method.service, method.path.rpartition("/")[2]).is_external

    def _payload(self, method: Method) -> bytes:
        if method.path.endswith("/Produce") and self.chance.random() < 0.5 and self._live.ids.of("topic_id"):
            return self._good_produce(method)
        return self._maker.request(method.request)

    def _good_produce(self, method: Method) -> bytes:
        """What nobody could make of random fields: a batch that its leader takes."""
        request: Any = method.request(
            acks=self.chance.choice((1, 2, 3)), timeout_ms=self.chance.choice((0, 500))
        )
        topic_id = self.chance.choice(self._live.ids.of("topic_id"))
        for partition in range(self.chance.randrange(1, 4)):
            batch = good_batch(
                topic_id,
                partition,
                [b"v"] * self.chance.choice((1, 50)),
                producer_id=(producer := self.chance.choice((-1, *self._live.ids.of("producer_id")))),
                producer_epoch=-1 if producer < 0 else self.chance.choice((0, 0, 0, 1)),
                base_sequence=-1 if producer < 0 else self.chance.choice((0, 1, 50, 2**31 - 1)),
            )
            request.partitions.add(topic_id=topic_id, partition=partition, leader_epoch=-1, batches=batch)
        sent: bytes = request.SerializeToString()
        return sent if self.chance.random() < 0.8 else self._maker.mutant(sent)

    def _metadata(self) -> list[tuple[str, str | bytes]]:
        """Mostly none; else what tracing and gRPC would read."""
        if self.chance.random() < 0.8:
            return []
        names = ("traceparent", "tracestate", "baggage", "authorization", "grpc-trace-bin", "x-y-bin")
        name = self.chance.choice(names)
        if name.endswith("-bin"):
            return [(name, self.chance.randbytes(self.chance.choice((0, 1, 29, 2_000))))]
        texts = ("", "00-0-0-0", f"00-{'f' * 32}-{'e' * 16}-01", "Bearer x.y.z", "x" * 3_000, "a=b,c")
        return [(name, self.chance.choice(texts))]

    def _stream(self, method: Method) -> str:
        payloads = [self._maker.request(method.request) for _ in range(self.chance.choice((0, 1, 1, 2, 8)))]

        def sent() -> Iterator[bytes]:
            yield from payloads

        assert self._channel is not None
        call: Any = self._channel.stream_stream(method.path)
        answers = call(sent(), timeout=self.chance.choice(_TIMEOUTS_S))
        try:
            for count, _ in enumerate(answers):
                if count == _ANSWERS_MAX:
                    answers.cancel()
        except grpc.RpcError as error:
            return self._judged(method, b" | ".join(payloads), error)
        return "OK"

    def _judged(self, method: Method, payload: bytes, error: Any) -> str:
        if error.code() in _MISTAKES and is_ours(method):
            told = f"{error.code().name} {error.details()!r}"
            raise Finding(f"{method.path} at {self._port} answered {told} to {shown(payload)}")
        name: str = error.code().name
        return name

    def close(self) -> None:
        """Close the channel."""
        if self._channel is not None:
            self._channel.close()
            self._channel = None


def is_ours(method: Method) -> bool:
    """Whether it is of the contract. The libraries' own services answer UNKNOWN to what is no message."""
    return method.service.startswith("hightide.")
