"""What ZooKeeper of the simulation holds, in the words of the broker's core, and back."""

from __future__ import annotations

from hightide_broker.core import effects as fx
from hightide_broker.core import events as ev
from hightide_broker.core import replica
from hightide_broker.core.replica import Replica
from hightide_controller.core.values.partition import LeaderAndIsr
from hightide_runtime.znodes.recovered_log import RecoveredLog
from sim.messages import Command
from sim.zookeeper import Stored


def is_of_another_epoch(leader_epoch: int, state: Replica) -> bool:
    """Whether what a follower asked for was meant for another leader epoch."""
    return leader_epoch != state.leader_epoch


def is_for_an_earlier_life(command: Command, broker_epoch: int) -> bool:
    """Whether a command was meant for an earlier registration of the broker."""
    return command.broker_epoch < broker_epoch


def as_decided(
    controller_epoch: int,
    decided: Stored | LeaderAndIsr,
    replicas: tuple[int, ...],
    partition_epoch: int,
    now_ms: int,
) -> ev.LeaderAndIsrDecided:
    """A decision that was read, or sent."""
    decision = replica.Decision(
        controller_epoch,
        decided.leader,
        decided.leader_epoch,
        decided.isr,
        replicas,
        partition_epoch,
        decided.eligible,
        tuple(RecoveredLog(*each) for each in decided.recovered),
        decided.unclean_epoch,
    )
    return ev.LeaderAndIsrDecided(decision, now_ms)


def as_read(stored: Stored, version: int, now_ms: int) -> ev.LeaderAndIsrRead:
    """What a leader reads after a write that failed."""
    recovered = tuple(RecoveredLog(*each) for each in stored.recovered)
    return ev.LeaderAndIsrRead(
        stored.leader, stored.leader_epoch, stored.isr, version, now_ms, stored.eligible, recovered
    )


def as_stored(broker_id: int, effect: fx.StoreIsr) -> Stored:
    """What a leader writes."""
    return Stored(
        broker_id,
        effect.leader_epoch,
        effect.isr,
        effect.controller_epoch,
        effect.eligible,
        effect.recovered,
        effect.unclean_epoch,
    )
