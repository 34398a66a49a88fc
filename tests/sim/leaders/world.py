"""A whole cluster without controllers in memory: three brokers, ZooKeeper, the network between them, and
the clock."""

from __future__ import annotations

from typing import cast

from hightide_broker.core.events import FollowersGone
from hightide_broker.core.isr_state import IsrState
from hightide_broker.core.replica import ReplicaSettings
from hightide_leaders.core import events as ev
from hightide_leaders.core.effects import Outcome
from hightide_runtime.znodes.leaders_znodes import ReplicasZnode
from msgspec.structs import replace
from sim.broker import SimBroker
from sim.controller import SimController
from sim.leaders.broker import KEEP_IN_SYNC_TIME_MS, LeadersBroker
from sim.leaders.checkers import LED_CHECKERS, LedHealed
from sim.leaders.messages import Inquiry, Told
from sim.leaders.zookeeper import NAME, SECOND, LeadersZooKeeper
from sim.messages import Envelope, Noticed
from sim.world import BROKERS, Settings, World
from sim.zookeeper import ZooKeeper

QUEUE_MAX = 3


class LeadersWorld(World):
    """The cluster. Public methods are the orders."""

    judged_by = LED_CHECKERS
    zookeeper: LeadersZooKeeper

    def __init__(self, settings: Settings | None = None) -> None:
        super().__init__(settings)
        self.zookeeper.min_insync_replicas = self.settings.min_insync_replicas
        self.topics_made = 0
        self.requests_made = 0

    def zookeeper_of_world(self) -> ZooKeeper:
        """V2's."""
        return LeadersZooKeeper(self._notify)

    def brokers_of_world(self, base: ReplicaSettings, replicas: tuple[int, ...]) -> dict[int, SimBroker]:
        """All brokers, also those without a replica: the partition may be moved there."""
        return {n: LeadersBroker(self, replace(base, broker_id=n), QUEUE_MAX) for n in BROKERS}

    def controllers_of_world(self, replicas: tuple[int, ...]) -> dict[int, SimController]:
        """None."""
        return {}

    def broker(self, broker_id: int) -> LeadersBroker:
        """One of them."""
        return cast(LeadersBroker, self.brokers[broker_id])

    def is_request(self, envelope: Envelope) -> bool:
        """Also what is asked of ZooKeeper."""
        return isinstance(envelope.body, Inquiry) or super().is_request(envelope)

    def at_zookeeper(self, envelope: Envelope) -> None:
        """A read or a write of V2's znodes, or what all brokers ask."""
        if isinstance(envelope.body, Inquiry):
            self.answer(envelope, Told(envelope.body.run(self.zookeeper)))
        else:
            super().at_zookeeper(envelope)

    @property
    def assigned(self) -> tuple[int, ...]:
        """AR."""
        return self.zookeeper.replicas_of(ReplicasZnode.path(*NAME)) or ()

    def counts(self, member: int, isr: IsrState | None = None) -> bool:
        """Not one that left with a version of the znode that no write of this leader can pass any more."""
        has_left = isr is not None and self.brokers[member].out_at > isr.partition_epoch
        return not has_left and super().counts(member, isr)

    # --- orders ----------------------------------------------------------------------------------

    def restart(self, node_id: int) -> None:
        """As ever. What the earlier life watched is not told to this one."""
        self._watch_no_more(node_id)
        super().restart(node_id)

    def expire(self, node_id: int) -> None:
        """As ever. What was watched in that session fires no more."""
        if self.nodes[node_id].session in self.zookeeper.live_sessions:
            self._watch_no_more(node_id)
        super().expire(node_id)

    def _watch_no_more(self, node_id: int) -> None:
        self.zookeeper.forget_watches(node_id)
        self.pending = [e for e in self.pending if e.target != node_id or not isinstance(e.body, Noticed)]

    def start(self) -> None:
        """Everything starts, an admin creates the topic, and its preferred replica leads."""
        super().start()
        assert self.create_topic(BROKERS[0], self.settings.replicas) is Outcome.DONE
        self.settle()

    def create_topic(self, admin: int, replicas: tuple[int, ...]) -> Outcome | None:
        """A client asks a broker to create the topic; its answer, if it has one when nothing is under way."""
        self.topics_made += 1
        topic_id = f"{self.topics_made:032x}"
        return self._ask(
            admin, lambda number: ev.AdditionRequested(number, NAME.topic, topic_id, (replicas,))
        )

    def delete_topic(self, admin: int) -> Outcome | None:
        """A client asks a broker to delete the topic. What it held is not asked for any more."""
        self.forget_topic()
        outcome = self._ask(admin, lambda number: ev.DeletionRequested(number, NAME.topic))
        self.forget_topic()
        return outcome

    def forget_topic(self) -> None:
        """What comes now is another topic: nothing of before is held against it."""
        self.acked.clear()
        self.contradictions.clear()
        self.zookeeper.forget_topic()
        for broker in self.brokers.values():
            broker.out_at = -1
        self.checkers = [checker(self) for checker in self.judged_by]

    def move(self, admin: int, replicas: tuple[int, ...]) -> Outcome | None:
        """A client asks a broker to move the partition."""
        return self._ask(admin, lambda number: ev.ReassignmentRequested(number, NAME, replicas))

    def grow_topic(self, admin: int, replicas: tuple[int, ...]) -> Outcome | None:
        """A client asks a broker to add a partition."""
        return self._ask(
            admin, lambda number: ev.AdditionRequested(number, NAME.topic, "", (replicas,), first=1)
        )

    def shrink_topic(self, admin: int) -> Outcome | None:
        """A client asks a broker to remove all partitions but the first."""
        return self._ask(admin, lambda number: ev.DeletionRequested(number, NAME.topic, keep=1))

    def cancel(self, admin: int) -> Outcome | None:
        """A client asks a broker to take the move of the partition back."""
        return self._ask(admin, lambda number: ev.ReassignmentRequested(number, NAME, None))

    def elect_preferred(self, admin: int) -> Outcome | None:
        """A client asks a broker to give the partition its preferred leader."""
        return self._ask(admin, lambda number: ev.ElectionRequested(number, NAME))

    def ask_to_move(self, admin: int, replicas: tuple[int, ...] | None) -> None:
        """A client asks a broker to move the partition, or to take a move back, and nobody waits for the
        answer."""
        self.requests_made += 1
        self.story.append(f"move to {replicas} at {admin}")
        self.broker(admin).hear(ev.ReassignmentRequested(-self.requests_made, NAME, replicas))
        self.check()

    def ask_to_elect(self, admin: int) -> None:
        """A client asks a broker for an election, and nobody waits for the answer."""
        self.requests_made += 1
        self.story.append(f"elect the preferred at {admin}")
        self.broker(admin).hear(ev.ElectionRequested(-self.requests_made, NAME))
        self.check()

    def ask_to_grow(self, admin: int, replicas: tuple[int, ...]) -> None:
        """A client asks a broker for a second partition, and nobody waits for the answer."""
        self.requests_made += 1
        self.story.append(f"grow, to {replicas}, at {admin}")
        self.broker(admin).hear(
            ev.AdditionRequested(-self.requests_made, NAME.topic, "", (replicas,), first=1)
        )
        self.check()

    def ask_to_shrink(self, admin: int) -> None:
        """A client asks a broker to remove the second partition, and nobody waits for the answer."""
        self.requests_made += 1
        self.story.append(f"shrink at {admin}")
        self.broker(admin).hear(ev.DeletionRequested(-self.requests_made, NAME.topic, keep=1))
        self.check()

    def finish_what_admins_left(self) -> None:
        """What is left of an admin that died is taken away by the next one; of one that lives, and whose
        write came after its client had an answer, by the next request there."""
        found = self.zookeeper.topic_znode(NAME.topic)
        assert found is not None
        keep, attempt = found[0].partition_count, found[0].attempt
        admin = BROKERS[0] if attempt is None else attempt[0]
        outcome = self._ask(admin, lambda number: ev.DeletionRequested(number, NAME.topic, keep=keep))
        while outcome is None:
            self.advance(KEEP_IN_SYNC_TIME_MS // 2)
            self.settle()
            outcome = self.broker(admin).answers.get(-self.requests_made)
        assert outcome is Outcome.DONE, outcome

    def tell_of_the_gone(self, broker_id: int, gone: int) -> None:
        """A broker hears that another one is not registered any more, in time or far too late."""
        self.story.append(f"{broker_id} hears that {gone} is gone")
        self.broker(broker_id).feed(FollowersGone(frozenset({gone})))
        self.check()

    def _ask(self, admin: int, request: object) -> Outcome | None:
        self.requests_made += 1
        event = request(-self.requests_made)  # type: ignore[operator]
        self.story.append(f"at {admin}: {event}")
        broker = self.broker(admin)
        broker.hear(event)
        self.settle()
        return broker.answers.get(-self.requests_made)

    # --- what a schedule asks --------------------------------------------------------------------

    def check_nothing_waits(self) -> None:
        """After healing: no queue has anything, no move is under way, and nobody has a replica that is not
        to be."""
        judge = LedHealed(self)
        found = self.zookeeper.topic(NAME.topic)
        if found is not None and set(found.partitions) != set(range(found.node.partition_count)):
            judge.violated(f"not every partition is there, or one too many: {found}")
        for nodes in found.partitions.values() if found is not None else ():
            if nodes.reassigned is not None or not nodes.replicas:
                judge.violated(f"a partition is still being moved or made: {nodes}")
        for broker_id in self.brokers:
            if queue := self.zookeeper.queue(broker_id):
                judge.violated(f"the queue of {broker_id} has {queue}")
            if self.broker(broker_id).topic_id and broker_id not in self.assigned:
                judge.violated(f"{broker_id} still has a replica")
            second = self.zookeeper.partition(SECOND)
            is_assigned = second is not None and broker_id in second.assigned
            if self.broker(broker_id).second != (second.life if second and is_assigned else None):
                judge.violated(f"{broker_id} has {self.broker(broker_id).second} of {second}")


def heal(world: LeadersWorld) -> None:
    """Faults end; all must be well after a while."""
    world.settle()
    world.heal()
    world.converge()
    healed = LedHealed(world)
    healed.check()
    healed.check_progress()
