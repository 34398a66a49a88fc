"""The settings of a producer, checked."""

from dataclasses import dataclass
from typing import Literal

from hightide.batch.header import Compression
from hightide.errors import InvalidArgumentError
from hightide.producer_key import ProducerKey
from hightide.producing.partitioner import BY_CRC32C, KeyPartitioning
from hightide.v1 import broker_service_pb2

Acks = Literal["all", 1, 0]
CompressionName = Literal["lz4", "zstd"]

_ACKS = {
    "all": broker_service_pb2.ACKS_ALL,
    1: broker_service_pb2.ACKS_LEADER,
    0: broker_service_pb2.ACKS_NONE,
}
_COMPRESSION = {None: Compression.NONE, "lz4": Compression.LZ4, "zstd": Compression.ZSTD}


@dataclass(frozen=True, slots=True)
class ProducerSettings:
    """The settings that `Producer` documents. Raises InvalidArgumentError, naming the setting, its value and
    the allowed values."""

    acks: Acks = "all"
    linger_ms: float = 5
    batch_bytes_max: int = 2 << 20
    buffer_memory_bytes: int = 64 << 20
    compression: CompressionName | None = None
    idempotent: bool = True
    delivery_timeout_ms: int = 120_000
    request_timeout_ms: int = 30_000
    max_block_ms: int = 60_000
    key: ProducerKey | None = None
    partitioning: KeyPartitioning = BY_CRC32C

    def __post_init__(self) -> None:
        if self.acks not in _ACKS:
            raise InvalidArgumentError(f'acks is {self.acks!r}; it may be "all", 1 or 0')
        if self.compression not in _COMPRESSION:
            raise InvalidArgumentError(
                f'compression is {self.compression!r}; it may be None, "lz4" or "zstd"'
            )
        if self.key is not None and not (self.acks == "all" and self.idempotent):
            raise InvalidArgumentError('a producer with a key has acks="all" and is idempotent')
        self._check("linger_ms", self.linger_ms, 0, 60_000)
        self._check("batch_bytes_max", self.batch_bytes_max, 4096, 32 << 20)
        self._check("buffer_memory_bytes", self.buffer_memory_bytes, self.batch_bytes_max, 1 << 40)
        self._check("delivery_timeout_ms", self.delivery_timeout_ms, 1, 1 << 31)
        self._check("request_timeout_ms", self.request_timeout_ms, 1, 1 << 31)
        self._check("max_block_ms", self.max_block_ms, 0, 1 << 31)

    @staticmethod
    def _check(name: str, value: float, least: float, most: float) -> None:
        if not least <= value <= most:
            raise InvalidArgumentError(f"{name} is {value}; it may be {least} to {most}")

    @property
    def block_ms(self) -> int:
        """How long send() may wait: max_block_ms, and never longer than a record may take to be delivered."""
        return min(self.max_block_ms, self.delivery_timeout_ms)

    @property
    def acks_code(self) -> broker_service_pb2.Acks.ValueType:
        """The acks in the contract's form."""
        return _ACKS[self.acks]

    @property
    def compression_codec(self) -> Compression:
        """The codec in the form of the batch header."""
        return _COMPRESSION[self.compression]

    @property
    def is_idempotent(self) -> bool:
        """Whether batches carry sequences. With acks=0 no answer shows a gap, so they carry none."""
        return self.idempotent and self.acks != 0

    @property
    def in_flight_max(self) -> int:
        """The number of requests in flight for one partition. Without sequences it is one, or their order
        would not be kept. With a key it is one, so that all batches after one that is refused are still
        unsent."""
        return 5 if self.is_idempotent and self.key is None else 1
