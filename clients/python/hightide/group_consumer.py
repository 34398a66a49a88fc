# Generated from aio/group_consumer.py by `make blocking`: change that one, not this.
"""A blocking consumer as a member of its group: what its user's thread does about it."""

from random import Random

from hightide.consumer_group.callbacks import GroupCallbacks
from hightide.consumer_group.group_core import GOING_BACK_TIMEOUT_MS, GroupCore
from hightide.consumer_group.hand import Hand
from hightide.consumer_group.membership import LEAVE_TIMEOUT_MS
from hightide.consumer_group.ownership import AssignmentEvent
from hightide.consumer_group.pending_commits import CommitOutcome
from hightide.consumer_group.settings import GroupSettings
from hightide.consuming.consumer_core import ConsumerCore
from hightide.consuming.fetch_position import FetchedBatch
from hightide.consuming.fetched_records import RecordsInDelivery
from hightide.transport.driver import Driver, now_ms
from hightide.transport.thread_condition import ThreadCondition

# While the consumer leaves, it checks this often whether that has ended.
_CHECK_S = 0.25


class GroupConsumer:
    """The membership of one consumer in its group. `changed` is the consumer's lock."""

    def __init__(
        self,
        settings: GroupSettings,
        callbacks: GroupCallbacks,
        consumer: ConsumerCore,
        in_delivery: RecordsInDelivery,
        changed: ThreadCondition,
    ) -> None:
        self._callbacks = callbacks
        self._changed = changed
        self.is_ending = False
        self.core = GroupCore(
            settings, consumer, in_delivery, Random(), tells_revoked=callbacks.on_revoke is not None
        )

    def subscribe(self, settings: GroupSettings, callbacks: GroupCallbacks) -> None:
        """Subscribe to what these settings say, and to nothing else. Called with the lock."""
        self._callbacks = self._callbacks.replaced_by(callbacks)
        self.core.ownership.tells_revoked = self._callbacks.on_revoke is not None
        self.core.subscribe(settings, now_ms())

    def come_back(self, driver: Driver, hand: Hand | None = None) -> None:
        """Settle the records that a user had, and report commits that are done, and partitions that have
        come and gone. Called without the lock, when the user asks for records again, before any are returned.
        Raises what the user's callbacks raise, and the error of a commit without a callback."""
        while True:
            with self._changed:
                self.core.came_back(now_ms(), hand)
                outcome = self.core.pending_commits.next_outcome()
                event = None if outcome is not None else self.core.ownership.next_event(hand)
                if self.core.ownership.stops:
                    driver.poke()
            if outcome is not None:
                self._tell_outcome(outcome)
                continue
            if event is None:
                return
            try:
                self._tell(event)
            finally:
                with self._changed:
                    self.core.ownership.told(event)
                    driver.poke()

    def _tell(self, event: AssignmentEvent) -> None:
        callback = self._callbacks.of(event)
        if callback is not None:
            callback(event.partitions)

    def _tell_outcome(self, outcome: CommitOutcome) -> None:
        if outcome.callback is not None:
            outcome.callback(outcome.written, outcome.error)
        elif outcome.error is not None:
            raise outcome.error

    def take(self, now: float, hand: Hand | None = None) -> FetchedBatch | None:
        """The next chunk, or None if no records may be returned now. Called with the lock."""
        return self.core.take(now, hand)

    def end_streams(self, driver: Driver) -> None:
        """Let each stream's user finish the record that it has, and end its loop, for as long as a partition
        that moves would wait. Called without the lock, before the consumer is closed."""
        with self._changed:
            self.is_ending = True
            self.core.ownership.interrupt()
            self._changed.notify_all()
            end_ms = now_ms() + self.core.settings.session_timeout_ms / 3
            hands = self.core.ownership.hands
            while any(hand.loop_count for hand in hands) and driver.is_running and now_ms() < end_ms:
                self._changed.wait(_CHECK_S)

    def leave(self, driver: Driver, *, is_settled: bool) -> None:
        """Report to the user that all partitions are given back, leave the group, and wait until the
        coordinator has written the final positions, or the time is up. Called without the lock. Raises what
        the callbacks raise, and the error of a commit without a callback."""
        with self._changed:
            if not self.core.ownership.is_divided:
                # A stream's user who is not back by now has a record that is not done.
                self.core.ownership.came_back(is_settled=is_settled)
            events = self.core.ownership.farewell()
        try:
            for event in events:
                self._tell(event)
        finally:
            self._say_goodbye(driver)
            self._tell_last_outcomes()

    def _say_goodbye(self, driver: Driver) -> None:
        with self._changed:
            now = now_ms()
            self.core.leave(now)
            end_ms = now + GOING_BACK_TIMEOUT_MS + LEAVE_TIMEOUT_MS
            driver.poke()
            while not self.core.has_left and driver.is_running and now_ms() < end_ms:
                self._changed.wait(_CHECK_S)
            self.core.left()

    def _tell_last_outcomes(self) -> None:
        """Report every commit, although an earlier one raises."""
        with self._changed:
            outcome = self.core.pending_commits.next_outcome()
        if outcome is None:
            return
        try:
            self._tell_outcome(outcome)
        finally:
            self._tell_last_outcomes()
