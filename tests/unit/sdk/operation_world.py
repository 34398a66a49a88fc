"""A cluster that a test answers for, call by call, and whose clock moves only by pauses."""

from collections.abc import Callable
from typing import Any

from hightide.administering.topic_operations import AdminOperations
from hightide.calls.call import Call
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.operations import Pause
from hightide.errors import HightideError
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide.v1.metadata_pb2 import Endpoint
from unit.sdk.producer_bench import metadata

Answer = Callable[[Call[Any]], Any]


class World:
    """Answers calls by their method; what is an error is thrown. Those with the same `seen` are of one
    client."""

    def __init__(self, seen: LeadersSeen | None = None, **answers: Answer) -> None:
        self.now_ms = 0.0
        self.asked: list[tuple[str, str]] = []
        self.operations = AdminOperations(("boot:9",), 5_000, lambda: self.now_ms, seen)
        self._answers = {"GET_METADATA": lambda _: with_controller(7), **answers}

    def run(self, operation: Any) -> Any:
        """Drive an operation to its end."""
        try:
            step = next(operation)
            while True:
                if isinstance(step, Pause):
                    self.now_ms += step.pause_ms
                    step = operation.send(None)
                    continue
                self.asked.append((step.method.name, step.address))
                answer = self._answers[step.method.name](step)
                step = (
                    operation.throw(answer) if isinstance(answer, HightideError) else operation.send(answer)
                )
        except StopIteration as ended:
            return ended.value


def with_controller(controller_id: int, leaders: tuple[int, ...] = (1,)) -> GetMetadataResponse:
    answer = metadata(leaders)
    answer.controller.CopyFrom(Endpoint(id=controller_id, host=f"c{controller_id}", port=controller_id))
    return answer
