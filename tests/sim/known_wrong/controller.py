"""What a controller does by the replication text (V3), one rule of Hightide's taken out at a time."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from hightide_controller.core import invariants, partition_election
from hightide_controller.core.effects import StoreLeaderAndIsr
from hightide_controller.core.elections import stores
from hightide_controller.core.moves import move_steps
from hightide_controller.core.partition_election import Candidates
from hightide_controller.core.values.partition import NO_LEADER, LeaderAndIsr, Partition
from msgspec.structs import replace
from sim.known_wrong.replacing import Replacement, always
from sim.zookeeper import ANY_VERSION

Deciding = Callable[..., LeaderAndIsr | None]


def _unfenced(multi: Callable[..., StoreLeaderAndIsr]) -> Callable[..., StoreLeaderAndIsr]:
    """A deposed controller still writes."""
    return lambda *given: replace(multi(*given), controller_epoch_version=ANY_VERSION)


def _any_live_leads(without_isr: Deciding) -> Deciding:
    """V3 A.3.2: any live replica."""

    def decided(
        partition: Partition, known: LeaderAndIsr, candidates: Candidates, controller_epoch: int, _: bool
    ) -> LeaderAndIsr | None:
        return without_isr(partition, known, candidates, controller_epoch, True)

    return decided


def _isr_forgotten(without_isr: Deciding) -> Deciding:
    """The ISR becomes empty when its last member dies."""

    def decided(*given: Any) -> LeaderAndIsr | None:
        found = without_isr(*given)
        return found if found is None or found.leader != NO_LEADER else replace(found, isr=())

    return decided


def _leaderless_start_again(decide: Deciding) -> Deciding:
    """V3 D.6: a partition without a leader is initialised as if it were new."""

    def decided(
        partition: Partition, candidates: Candidates, controller_epoch: int, *given: Any, **named: Any
    ) -> LeaderAndIsr | None:
        known = partition.leader_and_isr
        if known is None or known.leader != NO_LEADER:
            return decide(partition, candidates, controller_epoch, *given, **named)
        epoch = known.leader_epoch + 1
        begun = partition_election._initialise(partition, candidates, controller_epoch, epoch)
        return None if begun is None else replace(begun, partition_epoch=known.partition_epoch + 1)

    return decided


def _left_in_the_isr(partition: Partition, known: LeaderAndIsr, candidates: Candidates) -> int | None:
    """Whoever is left in the ISR, though all may have lost the ends of their logs."""
    return next((each for each in known.isr if each in candidates.live), None)


WITHOUT: Final[Mapping[str, tuple[Replacement, ...]]] = {
    "fenced_writes": (Replacement(stores, "_multi", _unfenced),),
    "clean_elections": (Replacement(partition_election, "_without_isr", _any_live_leads),),
    "last_isr_remembered": (
        Replacement(partition_election, "_without_isr", _isr_forgotten),
        Replacement(invariants, "_check_remembered", always(None)),
    ),
    "departures_end_epochs": (Replacement(move_steps, "_departs", always(False)),),
    "new_is_not_offline": (Replacement(partition_election, "decide", _leaderless_start_again),),
    "eligible_leaders": (
        Replacement(partition_election, "eligible_with", always(())),
        Replacement(partition_election, "live_eligible", always(())),
    ),
    "best_recovered_leads": (Replacement(partition_election, "best_recovered", lambda _: _left_in_the_isr),),
}
"""Rule of the core (docs/protocol.md, "The safety rules", or a KIP) → the controller without it."""
