"""Real replica cores joined by a link in memory, each with a log in memory: the fixture of the core's
tests."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from hightide_broker.core import invariants
from hightide_broker.core.effects import (
    AnswerEpochEnd,
    Append,
    AppendFetched,
    AskEpochEnd,
    Effect,
    Effects,
    PersistEpoch,
    Refuse,
    StartFetching,
    TruncateAndStartAt,
    TruncateTo,
)
from hightide_broker.core.events import (
    BatchesReceived,
    BatchSpan,
    EpochEndAsked,
    EpochEndReceived,
    Event,
    FetchRefused,
    FollowerFetched,
    LeaderAndIsrDecided,
    ProduceArrived,
)
from hightide_broker.core.machine import step
from hightide_broker.core.replica import Replica, ReplicaSettings
from msgspec import structs


@dataclass(frozen=True)
class Batch:
    """One batch in a log in memory: its span and what it says."""

    span: BatchSpan
    value: str


@dataclass
class Node:
    """One broker's replica: its core, its log, and all effects so far."""

    state: Replica
    log: list[Batch] = field(default_factory=list)
    epochs: dict[int, int] = field(default_factory=dict)
    asking: AskEpochEnd | None = None
    fetching: StartFetching | None = None

    def happens(self, event: Event, batches: tuple[Batch, ...] = ()) -> Effects:
        """Let the event happen, keep the log in step, check the invariants."""
        self.state, effects = step(self.state, event)
        for effect in effects:
            self._perform(effect, batches)
        invariants.check(self.state)
        end_offset = self.log[-1].span.end_offset if self.log else self.state.log_start_offset
        assert end_offset == self.state.log_end_offset
        return effects

    def _perform(self, effect: Effect, batches: tuple[Batch, ...]) -> None:
        match effect:
            case Append(base_offset, leader_epoch, _):
                for batch in batches:
                    self.log.append(replace(batch, span=BatchSpan(base_offset, 1, leader_epoch)))
                    base_offset += 1
            case AppendFetched(base_offset, _):
                self.log += [batch for batch in batches if batch.span.base_offset >= base_offset]
            case TruncateTo(offset, _):
                self.log = [batch for batch in self.log if batch.span.end_offset <= offset]
                self.epochs = {e: start for e, start in self.epochs.items() if start < offset}
            case TruncateAndStartAt(_):
                self.log, self.epochs = [], {}
            case PersistEpoch(epoch, start_offset):
                self.epochs = {e: start for e, start in self.epochs.items() if start < start_offset}
                self.epochs[epoch] = start_offset
            case AskEpochEnd():
                self.asking = effect
            case StartFetching():
                self.fetching = effect
                self.asking = None
            case _:
                pass

    def produces(self, *values: str, now_ms: int = 0, acks_all: bool = True) -> Effects:
        """A producer sends one batch for each value."""
        batches = tuple(Batch(BatchSpan(-1, 1, -1), value) for value in values)
        return self.happens(ProduceArrived.dummy(len(values), acks_all=acks_all, now_ms=now_ms), batches)

    def is_answered(self, epoch: int, end_offset: int) -> Effects:
        """Its leader tells where `epoch` ended, in answer to the last question."""
        assert self.asking is not None
        return self.happens(EpochEndReceived(self.asking, epoch, end_offset))

    def restarts(self, lost_records: int = 0) -> None:
        """The broker is started again; a crash may have lost the end of the log."""
        if lost_records:
            del self.log[-lost_records:]
        old = self.state
        end_offset = self.log[-1].span.end_offset if self.log else old.log_start_offset
        self.state = Replica.opened(
            old.settings,
            log_start_offset=old.log_start_offset,
            log_end_offset=end_offset,
            high_watermark=old.high_watermark,
            epochs=tuple(sorted(self.epochs.items())),
            is_new=False,
        )
        self.asking = self.fetching = None

    @property
    def values(self) -> str:
        """What the log says, batch by batch."""
        return "".join(batch.value for batch in self.log)


class ReplicaPair:
    """Brokers 1, 2, 3 with a replica each; the controller is whoever calls `decide`."""

    def __init__(self, settings: ReplicaSettings | None = None, count: int = 3) -> None:
        base = settings or ReplicaSettings(broker_id=0)
        own = {n: structs.replace(base, broker_id=n) for n in range(1, count + 1)}
        self.nodes = {n: Node(Replica.opened(each)) for n, each in own.items()}

    def __getitem__(self, broker_id: int) -> Node:
        return self.nodes[broker_id]

    def decide(
        self,
        leader: int,
        leader_epoch: int,
        *,
        isr: tuple[int, ...] = (1, 2, 3),
        to: tuple[int, ...] | None = None,
        now_ms: int = 0,
        unclean_epoch: int = 0,
    ) -> None:
        """The controller decides, and tells the brokers `to` (all, unless said otherwise)."""
        decision = LeaderAndIsrDecided.dummy(
            leader, leader_epoch, isr, replicas=tuple(self.nodes), now_ms=now_ms, unclean_epoch=unclean_epoch
        )
        for broker_id in to or tuple(self.nodes):
            self[broker_id].happens(decision)

    def ask(self, follower: int) -> None:
        """The follower's question about its last epoch is answered by the broker that it follows."""
        node = self[follower]
        question = node.asking
        assert question is not None
        (answer,) = self[question.leader].happens(EpochEndAsked(question.leader_epoch, question.epoch))
        if isinstance(answer, Refuse):
            node.happens(FetchRefused(question.leader, question.leader_epoch, answer.refusal))
            return
        assert isinstance(answer, AnswerEpochEnd)
        node.asking = None
        node.happens(EpochEndReceived(question, *answer.end))

    def fetch(self, follower: int, now_ms: int = 0, max_batches: int = 1000) -> Effects:
        """One round: the follower tells how far it is, the leader answers what is new. The leader's
        effects."""
        node = self[follower]
        if node.asking is not None:
            self.settle_epochs(follower)
        position = node.state.fetch_offset
        assert position is not None
        leader_id, epoch = node.state.leader, node.state.leader_epoch
        leader = self[leader_id]
        effects = leader.happens(FollowerFetched(follower, epoch, position, now_ms))
        refusals = [effect for effect in effects if isinstance(effect, Refuse)]
        if refusals:
            start = leader.state.log_start_offset
            node.happens(FetchRefused(leader_id, epoch, refusals[0].refusal, start))
            return effects
        batches = tuple(b for b in leader.log if b.span.base_offset >= position)[:max_batches]
        node.happens(
            BatchesReceived(
                leader_id,
                leader.state.leader_epoch,
                tuple(b.span for b in batches),
                leader.state.high_watermark,
                leader.state.log_start_offset,
            ),
            batches,
        )
        return effects

    def settle_epochs(self, follower: int) -> int:
        """Ask about epochs until the follower may fetch; how many questions it took."""
        asked = 0
        while self[follower].asking is not None:
            self.ask(follower)
            asked += 1
            assert asked < 20, "asking about epochs comes to an end"
        return asked

    def catch_up(self, *followers: int, now_ms: int = 0) -> None:
        """Fetch until every follower has everything and knows the high watermark."""
        for _ in range(3):
            for follower in followers:
                self.fetch(follower, now_ms)
