"""The settings of a consumer, checked."""

from dataclasses import dataclass
from typing import Final, Literal

from hightide.consuming.corrupt_batches import OnCorruptBatch, check_policy
from hightide.errors import InvalidArgumentError

OffsetReset = Literal["earliest", "latest", "error"]

_RESETS: Final = ("earliest", "latest", "error")


@dataclass(frozen=True, slots=True)
class ConsumerSettings:
    """The settings that `Consumer` documents. Raises InvalidArgumentError, naming the setting, its value and
    the allowed values."""

    offset_reset: OffsetReset = "earliest"
    fetch_max_bytes: int = 4 << 20
    fetch_max_wait_ms: int = 500
    fetch_min_bytes: int = 1
    prefetch_bytes: int = 32 << 20
    check_crcs: bool = True
    on_corrupt_batch: OnCorruptBatch = "fail"
    request_timeout_ms: int = 30_000
    unavailable_timeout_ms: int = 60_000

    def __post_init__(self) -> None:
        if self.offset_reset not in _RESETS:
            raise InvalidArgumentError(f"offset_reset is {self.offset_reset!r}; it may be one of {_RESETS}")
        check_policy(self.on_corrupt_batch)
        self._check("fetch_max_bytes", self.fetch_max_bytes, 1, 32 << 20)
        self._check("fetch_max_wait_ms", self.fetch_max_wait_ms, 0, 60_000)
        self._check("fetch_min_bytes", self.fetch_min_bytes, 0, self.fetch_max_bytes)
        self._check("prefetch_bytes", self.prefetch_bytes, 1, 1 << 40)
        self._check("request_timeout_ms", self.request_timeout_ms, 1, 1 << 31)
        self._check("unavailable_timeout_ms", self.unavailable_timeout_ms, 1, 1 << 31)

    @staticmethod
    def _check(name: str, value: int, least: int, most: int) -> None:
        if not least <= value <= most:
            raise InvalidArgumentError(f"{name} is {value}; it may be {least} to {most}")
