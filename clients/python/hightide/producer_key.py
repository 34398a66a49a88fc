"""The identity of a writer that must stay the same after an interruption."""

import hashlib
from dataclasses import dataclass
from typing import Final

from hightide.errors import InvalidArgumentError

_EPOCHS: Final = 1 << 15
_ID_BITS: Final = 62


@dataclass(frozen=True, slots=True)
class ProducerKey:
    """The key given to `Producer(key=…)` by writers that begin again. The same name and part give the same
    producer id. Versions give its epochs; at the broker a newer epoch fences the older ones. So a name, a
    part and a version (such as the number of a micro-batch) stand for one set of records, in one order of
    batches for each partition. Raises InvalidArgumentError."""

    name: str
    part: int
    version: int

    def __post_init__(self) -> None:
        if not self.name or self.part < 0 or self.version < 0:
            raise InvalidArgumentError(
                f"{self} is no producer key; give it a name, and a part and a version from 0 on"
            )

    @property
    def producer_id(self) -> int:
        """The producer id. Brokers never give it out: theirs are small, this one is 2^62 or more. It changes
        whenever all epochs have been used, since an epoch has 15 bits."""
        said = f"{self.part}/{self.version // _EPOCHS}/{self.name}".encode()
        return 1 << _ID_BITS | int.from_bytes(hashlib.sha256(said).digest()[:8], "big") >> (64 - _ID_BITS)

    @property
    def producer_epoch(self) -> int:
        """The version's place among those that share a producer id."""
        return self.version % _EPOCHS
