"""Reading as a member of a group: `hightide topic consume --group` prints records as lines of output."""

import signal
from dataclasses import dataclass
from types import FrameType
from typing import BinaryIO, Literal, Self

from hightide import Consumer
from hightide.consuming.corrupt_batches import OnCorruptBatch

from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.records.printer import RecordPrinter

_POLL_TIMEOUT_S = 0.5
_RECORDS_MAX = 500


@dataclass(frozen=True, slots=True)
class Membership:
    """The member to read as. The coordinator chooses names that are empty, or there are none. `offset_reset`
    is the start for partitions without a committed offset."""

    group: str
    consumer_id: str = ""
    instance_id: str = ""
    offset_reset: Literal["earliest", "latest"] = "earliest"
    on_corrupt_batch: OnCorruptBatch = "fail"


def consume_in_group(
    topic: str,
    printer: RecordPrinter,
    output: BinaryIO,
    *,
    cluster: ClientArguments,
    membership: Membership,
    records_max: int | None,
    exit_at_end: bool,
) -> None:
    """Print the records of the partitions that the group assigns to this consumer, until it has read them all
    to their ends, the wanted number, Ctrl-C or SIGTERM. It commits exactly the printed records."""
    left = records_max
    with (
        Consumer(
            **cluster,
            group=membership.group,
            topics=[topic],
            consumer_id=membership.consumer_id or None,
            instance_id=membership.instance_id or None,
            offset_reset=membership.offset_reset,
            on_corrupt_batch=membership.on_corrupt_batch,
        ) as consumer,
        _Ending() as ending,
    ):
        while not ending.is_wanted and (left is None or left > 0):
            count = _RECORDS_MAX if left is None else min(left, _RECORDS_MAX)
            records = consumer.poll(_POLL_TIMEOUT_S, count)
            output.write(b"".join(map(printer.render, records)))
            # This comes before the next poll or the close, which commit: committed records were seen.
            output.flush()
            left = None if left is None else left - len(records)
            if exit_at_end and not records and is_at_end(consumer):
                break


def is_at_end(consumer: Consumer) -> bool:
    """Whether the consumer owns partitions, and has read each of them to its end."""
    lag = consumer.lag()
    owned = consumer.assignment
    return bool(owned) and all(lag.get(partition) == 0 for partition in owned)


class _Ending:
    """Notes Ctrl-C and SIGTERM instead of obeying them, so that no record is lost between the consumer and
    the output, and the consumer leaves its group in order. The second signal has its usual effect."""

    def __init__(self) -> None:
        self.is_wanted = False
        self._before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def __enter__(self) -> Self:
        for number in self._before:
            signal.signal(number, self._note)
        return self

    def __exit__(self, *_: object) -> None:
        self._restore()

    def _note(self, signal_number: int, frame: FrameType | None) -> None:
        self.is_wanted = True
        self._restore()

    def _restore(self) -> None:
        for number, before in self._before.items():
            signal.signal(number, before)
