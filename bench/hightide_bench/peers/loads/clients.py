"""What a load may ask of a client, whichever system it belongs to.

The loads know no system: `clients_of` gives them the clients that their configuration names.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

#: Called with None when a record was acknowledged, else with what went wrong.
Acknowledged = Callable[[str | None], None]


class BulkSender(Protocol):
    """A producer that sends the same values again and again, as fast as it can."""

    def send_all(self, acknowledged: Acknowledged) -> int:
        """Send the values once; `acknowledged` is told about the last one. Return how many they are."""

    def flush(self) -> None:
        """Wait until all is acknowledged. Raises LoadError if it takes too long."""


class BulkReader(Protocol):
    """A consumer of whole topics."""

    def rewind(self) -> None:
        """Go to the beginning of all partitions."""

    def read(self) -> tuple[int, int]:
        """Wait for records. Return how many came, and the bytes of their values, all of which were touched;
        0 records if none came in time."""


class RecordSender(Protocol):
    """A producer of single records, with no linger."""

    def send(self, topic: str, value: bytes, partition: int | None = None) -> None:
        """Send a record."""

    def send_acknowledged(self, topic: str, value: bytes, partition: int, acknowledged: Acknowledged) -> None:
        """Send a record, and have its fate told on another thread."""

    def flush(self) -> None:
        """Wait until all is acknowledged, or has failed."""


class RecordReader(Protocol):
    """A consumer of what comes from now on."""

    def poll(self, timeout_s: float) -> Sequence[bytes]:
        """Return the values that have come; none if none came in time."""


class Member(Protocol):
    """A member of a consumer group."""

    def poll(self) -> None:
        """Do the member's work for half a second or less."""

    def assignment(self) -> list[int]:
        """Return the partitions that it may read."""

    def leave(self) -> None:
        """Leave the group in order."""


class Clients(Protocol):
    """The clients of one system, set up as one entrant of a row wants them."""

    def bulk_sender(self, topic: str, values: Sequence[bytes]) -> BulkSender:
        """Make a producer with acks=all that writes each record once."""

    def bulk_reader(self, topic: str, partitions: int) -> BulkReader:
        """Make a consumer of all partitions."""

    def record_sender(self) -> RecordSender:
        """Make a producer with acks=all and without linger."""

    def record_reader(self, topic: str, partitions: int) -> RecordReader:
        """Make a consumer that stands at the end of all partitions."""

    def member(self, topic: str, group: str, changed: Callable[[], None]) -> Member:
        """Make a member of a group. `changed` is called when its partitions change."""


class LoadError(Exception):
    """A load cannot go on. The message is what the parent shows."""


def clients_of(configuration: Mapping[str, Any]) -> Clients:
    """Make the clients that a load's configuration names: `system`, `bootstrap`, and how they are set up."""
    if configuration["system"] == "kafka":
        # Imported here, so that no process has the library of the other system.
        from hightide_bench.peers.loads.kafka_clients import KafkaClients

        return KafkaClients(
            configuration["bootstrap"],
            tuned=configuration["tuned"],
            compression=configuration.get("compression"),
        )
    from hightide_bench.peers.loads.hightide_clients import HightideClients

    return HightideClients(
        configuration["bootstrap"],
        arrow=configuration.get("arrow", False),
        compression=configuration.get("compression"),
    )
