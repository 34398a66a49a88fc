"""The requests for the producer id of an idempotent producer, from broker to broker until one answers."""

from typing import Final

from hightide.calls.call import MessageCall, Method
from hightide.cluster.metadata import RETRY, MetadataSeeker
from hightide.errors import HightideError
from hightide.producing.partition_queue import ProducerIdentity
from hightide.v1.broker_service_pb2 import InitProducerIdRequest, InitProducerIdResponse

_TIMEOUT_MS: Final = 5_000


class IdentitySeeker:
    """The identity that queues begin under; when it is dropped, another one is requested."""

    def __init__(self, seeker: MetadataSeeker, identity: ProducerIdentity | None) -> None:
        self.identity = identity
        self.error: HightideError | None = None
        self.wake_at_ms: float | None = None
        self._seeker = seeker
        self._under_way: MessageCall[InitProducerIdResponse] | None = None
        self._attempts = 0
        self._not_before_ms = 0.0

    def drop(self, identity: ProducerIdentity | None) -> None:
        """Begin no more queues under this identity."""
        if self.identity == identity:
            self.identity = None

    def poll(self, now_ms: float) -> MessageCall[InitProducerIdResponse] | None:
        """The call to make now, if any. Called while a queue needs an identity."""
        self.wake_at_ms = None
        if self.identity is not None or self._under_way is not None:
            return None
        if now_ms < self._not_before_ms:
            self.wake_at_ms = self._not_before_ms
            return None
        candidates = self._seeker.candidates()
        address = candidates[self._attempts % len(candidates)]
        self._under_way = MessageCall(
            address, Method.INIT_PRODUCER_ID, _TIMEOUT_MS, InitProducerIdRequest(), InitProducerIdResponse
        )
        return self._under_way

    def is_mine(self, call: object) -> bool:
        """Whether this call was made for an identity."""
        return call is self._under_way

    def completed(self, outcome: InitProducerIdResponse | HightideError, now_ms: float) -> None:
        """Handle a broker's answer. If it gave no identity, another broker is asked."""
        self._under_way = None
        if isinstance(outcome, HightideError):
            self._attempts += 1
            self.error = outcome
            self._not_before_ms = now_ms + RETRY.pause_ms(self._attempts)
        else:
            self.error = None
            self.identity = ProducerIdentity(outcome.producer_id, outcome.producer_epoch)
