"""Whatever the network does, each record is in the log once, and in order (KIP-98)."""

from collections import deque

from hightide.batch.body import decode
from hightide.batch.header import next_sequence, split
from hightide.batch.wire import parse_produce_request
from hightide.errors import AddressUnreachableError, RequestTimeoutError
from hightide.producer_key import ProducerKey
from hightide.producing.produce_call import ProduceCall
from hightide.v1.broker_service_pb2 import ProducePartitionResult
from hightide.v1.errors_pb2 import ErrorCode
from hypothesis import given, settings
from hypothesis import strategies as st
from unit.sdk.producer_bench import ProducerBench, metadata


class ModelBroker:
    """The log of one partition, with the rules of KIP-98 for sequences."""

    def __init__(self) -> None:
        self.log: list[int] = []
        self._producers: dict[int, tuple[int, deque[tuple[int, int]]]] = {}

    def append(self, call: ProduceCall) -> ProducePartitionResult:
        """Take the one batch of a call, or say why not."""
        (part,) = parse_produce_request(call.encode()).partitions
        ((header, batch),) = split(part.batches)
        expected, remembered = self._producers.get(header.producer_id, (None, deque()))
        for base_sequence, base_offset in remembered:
            if base_sequence == header.base_sequence:
                return ProducePartitionResult(base_offset=base_offset)
        if expected is None and header.base_sequence != 0:
            return _refusal(ErrorCode.ERROR_CODE_UNKNOWN_PRODUCER_ID)
        if expected is not None and header.base_sequence != expected:
            return _refusal(ErrorCode.ERROR_CODE_OUT_OF_ORDER_SEQUENCE)
        base_offset = len(self.log)
        self.log += [int(value) for value in decode(batch).column(1).to_pylist()]
        following = next_sequence(header.base_sequence, header.record_count)
        recent = deque((*remembered, (header.base_sequence, base_offset)), maxlen=5)
        self._producers[header.producer_id] = (following, recent)
        return ProducePartitionResult(base_offset=base_offset)


def _refusal(code: ErrorCode.ValueType) -> ProducePartitionResult:
    return ProducePartitionResult(error_code=code, base_offset=-1, current_leader=-1)


class Network:
    """Carries calls to the broker as the test says: in any order, losing requests and answers."""

    def __init__(self, key: ProducerKey | None) -> None:
        self.bench = ProducerBench(batch_bytes_max=4_096, delivery_timeout_ms=10**9, key=key)
        self.broker = ModelBroker()
        self.in_flight: list[ProduceCall] = []
        self.sent = 0
        self.epoch = 1

    def send(self, count: int) -> None:
        for _ in range(count):
            taken = self.bench.core.append(
                self.bench.home,
                self.bench.home.queues[0],
                None,
                b"%d" % self.sent + b" " * 700,
                5,
                None,
                self.bench.now_ms,
            )
            assert taken is not None
            self.sent += 1

    def turn(self) -> None:
        self.bench.pass_ms(50)
        self.in_flight += self.bench.calls()
        while self.bench.asked:
            self.bench.answer_metadata(metadata({0: (1 + self.epoch % 3, self.epoch)}))
        self.in_flight += self.bench.calls()
        self.bench.core.cancelled.clear()

    def act(self, what: str, which: int) -> None:
        if what == "send":
            self.send(1 + which)
        elif what == "move":
            self.epoch += 1
        elif self.in_flight:
            call = self.in_flight.pop(which % len(self.in_flight))
            address = call.address
            if what == "lose request":
                self.bench.fail(call, AddressUnreachableError("lost", address=address))
            elif what == "refuse":
                self.bench.answer(call, _refusal(ErrorCode.ERROR_CODE_NOT_ENOUGH_REPLICAS))
            else:
                result = self.broker.append(call)
                if what == "lose answer":
                    self.bench.fail(call, RequestTimeoutError("lost", address=address))
                elif what == "depose":
                    self.bench.answer(call, _refusal(ErrorCode.ERROR_CODE_NOT_LEADER))
                else:
                    self.bench.answer(call, result)
        self.turn()


ACTIONS = ["send", "send", "deliver", "deliver", "lose request", "lose answer", "refuse", "depose", "move"]


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(ACTIONS), st.integers(0, 20)), max_size=60),
    st.sampled_from([None, ProducerKey("query", 0, 3)]),
)
def test_each_record_is_in_the_log_once_and_in_order(
    actions: list[tuple[str, int]], key: ProducerKey | None
) -> None:
    network = Network(key)
    for what, which in actions:
        network.act(what, which)
    for _ in range(200):
        if not network.bench.core.undelivered_count:
            break
        network.act("deliver", 0)
    assert network.broker.log == list(range(network.sent))
    assert network.bench.core.undelivered_count == 0
    assert network.bench.core.free_bytes == network.bench.core.settings.buffer_memory_bytes
