"""What one user of a consumer in a group has of it.

A consumer has one user, or one for each of its streams (`Ownership.divide`). Rules of this file: no clock, no
I/O, no threads.
"""

from dataclasses import dataclass, field

from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.records import TopicPartition


@dataclass(slots=True, eq=False)
class Hand:
    """One user. `partitions` are in hand: batches of them have left the queue, and the user has not come back
    since. `is_changed` means that there may be an event for this user. `loop_count` counts the loops over the
    user's records that have not ended."""

    number: int
    in_delivery: RecordsInDelivery
    partitions: set[TopicPartition] = field(default_factory=set)
    is_changed: bool = False
    loop_count: int = 0
