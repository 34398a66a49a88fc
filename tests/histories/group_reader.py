"""One consumer of a group as a process of its own, so that it can be killed, stopped and woken up. It reports
all that it is given, hands out and commits, before it does the next thing: what a dead one has not reported,
it has not committed either.
"""

import json
import os
import signal
import sys
import time
from collections.abc import Iterable, Sequence
from itertools import groupby
from types import FrameType
from typing import Any

from hightide import Consumer, HightideError, Record, TopicPartition

_RECORDS_MAX = 200
_POLL_S = 0.1


class Reports:
    """The file that the process appends its lines to, each one whole."""

    def __init__(self, path: str) -> None:
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        self.generations: dict[int, int] = {}

    def say(self, *lines: Sequence[object]) -> None:
        """Append lines."""
        if lines:
            os.write(self._file, b"".join(json.dumps(line).encode() + b"\n" for line in lines))

    def given(self, consumer: Consumer, partitions: Iterable[TopicPartition]) -> None:
        """The callback before the first record of these."""
        assert consumer._member is not None, "in a group"
        owned = consumer._member.core.ownership.owned
        for each in partitions:
            # What is being taken away again already has no generation in `consumer.generations`; what is gone
            # is told as lost next.
            if (now_owned := owned.get(each)) is not None:
                self.generations[each.partition] = now_owned.generation
                self.say(("given", now_ms(), each.partition, now_owned.generation))

    def taken(self, partitions: Iterable[TopicPartition]) -> None:
        """The callbacks before they are given back, and when they were given away."""
        self.say(
            *(
                ("taken", now_ms(), each.partition, self.generations.get(each.partition))
                for each in partitions
            )
        )

    def handed_out(self, records: Sequence[Record], began_ms: float) -> None:
        """What a poll that began then has returned, as runs of consecutive offsets."""
        at_ms = now_ms()
        runs = groupby(
            enumerate(records), lambda numbered: (numbered[1].partition, numbered[1].offset - numbered[0])
        )
        for (partition, _), run in runs:
            members = [record.offset for _, record in run]
            generation = self.generations[partition]
            self.say(("handed", at_ms, began_ms, partition, generation, members[0], members[-1] + 1))


def now_ms() -> float:
    """The clock that all processes of a machine share."""
    return time.monotonic() * 1000


def read(path: str, settings: dict[str, Any]) -> None:
    """Read until SIGTERM, then leave the group."""
    is_told_to_end = False

    def end(signal_number: int, frame: FrameType | None) -> None:
        nonlocal is_told_to_end
        is_told_to_end = True

    signal.signal(signal.SIGTERM, end)
    reports = Reports(path)
    commits_by_hand = not settings.get("auto_commit", True)
    records_max = settings.pop("records_max", _RECORDS_MAX)
    polls_left = settings.pop("stands_still_after_polls", -1)
    with Consumer(
        **settings,
        on_assign=lambda partitions: reports.given(consumer, partitions),
        on_revoke=reports.taken,
        on_lost=reports.taken,
    ) as consumer:
        while not is_told_to_end:
            try:
                began_ms = now_ms()
                records = consumer.poll(_POLL_S, records_max)
                reports.handed_out(records, began_ms)
                polls_left -= bool(records)
                if records and polls_left == 0 and commits_by_hand:
                    stand_still_in_commit(consumer, reports)
                elif records and polls_left == 0:
                    stand_still(reports)
                elif commits_by_hand and records:
                    commit(consumer, reports)
            except HightideError as error:
                # What is fenced or not to be had now: the next poll says how the consumer stands.
                reports.say(("refused", now_ms(), type(error).__name__, str(error)))


def stand_still(reports: Reports) -> None:
    """As in a long collection of garbage, with records in hand, until somebody wakes this process up."""
    reports.say(("stands still", now_ms()))
    os.kill(os.getpid(), signal.SIGSTOP)
    reports.say(("woken", now_ms()))


def stand_still_in_commit(consumer: Consumer, reports: Reports) -> None:
    """Commit what was handed out, and stand still when it is decided what to commit and not said yet. Before
    that it would be a matter of microseconds whether the consumer that is woken up knows what it has lost."""
    znodes = consumer._member
    assert znodes is not None, "in a group"
    with consumer._changed:
        commits = znodes.core.commits(None, "")
        member_id = znodes.core.membership.member_id
    stand_still(reports)
    said = consumer._operations().commit_offsets(znodes.core.settings.group, member_id, commits)
    failed = consumer._run(said)
    for each in commits:
        error = failed.get(TopicPartition(each.topic, each.partition))
        if error is None:
            reports.say(("committed", now_ms(), each.partition, each.offset))
        else:
            reports.say(("refused", now_ms(), type(error).__name__, str(error)))


def commit(consumer: Consumer, reports: Reports) -> None:
    """Commit by hand what was handed out, and report what is durable by that."""
    for partition, offset in consumer.commit().items():
        reports.say(("committed", now_ms(), partition.partition, offset))


if __name__ == "__main__":
    read(sys.argv[1], json.loads(sys.argv[2]))
