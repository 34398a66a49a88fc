"""What a leader does for its partition beside replication: a reassignment, and giving way to the preferred
replica (V2 "Reassignment", checkLoadBalancing).

Theory of operation. The text does both in the commit thread, after a commit. A partition to which nobody
writes would never be moved, and its preferred replica would wait for ever. Here any news of the ISR is an
occasion, and a read of the partition comes first: what is done depends on the znodes alone, so a leader
that dies in between is followed by one that goes on.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import isr_path, leader_path, reassigned_path, replicas_path

from hightide_leaders.core import writes as wr
from hightide_leaders.core.effects import Effects
from hightide_leaders.core.elections import fenced_by, narrowed, of_life, resignation
from hightide_leaders.core.events import IsrAdopted
from hightide_leaders.core.queues import send
from hightide_leaders.core.state import Hosted, LeadersState, Role
from hightide_leaders.core.values import ChangeKind, Lives

GIVES_WAY_EVERY = 5
"""How many LeaderElectionWaitTimes lie between two times at which a leader gives way."""


def isr_adopted(state: LeadersState, event: IsrAdopted) -> Effects:
    """The replica that leads here has news of its ISR: read the partition if there may be something to do."""
    hosted = state.hosted.get(event.name)
    if hosted is None or hosted.role is not Role.LEADING or hosted.epoch != event.leader_epoch:
        return ()
    hosted.newest_version = max(hosted.newest_version, event.partition_epoch)
    if not is_occasion(event):
        return ()
    rar = hosted.nodes.reassigned
    may_finish = bool(rar) and set(rar or ()) <= set(event.isr)
    preferred = hosted.nodes.replicas[:1]
    gives_way = preferred != (state.me,) and set(preferred) <= set(event.isr)
    return (state.read(event.name),) if may_finish or gives_way else ()


def is_occasion(event: IsrAdopted) -> bool:
    """Whether a leader looks after its partition now. By the text: after a commit."""
    return True


def lead_on(state: LeadersState, hosted: Hosted, lives: Lives, now_ms: int) -> Effects:
    """The next step of what is asked of a leader, if it has none under way.

    A move ends by the ISR alone: as long as somebody leads, nobody is in it whose log is in doubt. An
    election leaves them out, they leave before they start, and the last one takes its leader znode along.
    """
    if hosted.writing is not None:
        return ()
    nodes = hosted.nodes
    assert nodes.isr is not None
    rar = nodes.reassigned
    if not rar:
        return check_load_balancing(state, hosted, lives, now_ms)
    if set(rar) <= set(nodes.isr.isr):
        return end_move(state, hosted, rar, nodes.isr)
    if hosted.started_for == rar:
        return ()
    hosted.started_for = rar
    starts = send(_others(rar, nodes.replicas), ChangeKind.START_REPLICA, hosted.name, nodes)
    guarded: wr.Operations = (wr.Check(isr_path(*hosted.name), fenced_by(nodes)), *starts)
    return (state.write(hosted.name, guarded),) if starts else ()


def check_load_balancing(state: LeadersState, hosted: Hosted, lives: Lives, now_ms: int) -> Effects:
    """Give way to the preferred replica if it is in sync, and alive: a dead one would leave the partition
    without a leader for PreferredReplicaTime, again and again. One that gave the partition back may do so
    again, so it is asked now and then only. A broker that is drained gives way to any other, and nobody
    gives way to it."""
    nodes = hosted.nodes
    assert nodes.isr is not None
    is_drained = state.me in lives.drained
    heirs = set(nodes.isr.isr) - nodes.isr.doubted - lives.drained - {state.me}
    if not is_drained:
        heirs &= set(nodes.replicas[:1])
    if not heirs & lives.live:
        if heirs or is_drained:
            # It may be between two sessions, or come in sync.
            state.look_at(hosted, now_ms + state.settings.leader_election_wait_time_ms)
        return ()
    gave_way_in, until_ms = hosted.gave_way
    if 0 <= gave_way_in < hosted.epoch and now_ms < until_ms:
        state.look_at(hosted, until_ms)
        return ()
    hosted.gave_way = hosted.epoch, now_ms + GIVES_WAY_EVERY * state.settings.leader_election_wait_time_ms
    return (state.write(hosted.name, resignation(hosted.name, nodes)),)


def end_move(state: LeadersState, hosted: Hosted, rar: tuple[int, ...], isr: IsrNode) -> Effects:
    """All of RAR are in sync: make RAR the replicas.

    The text closes the old replicas before it writes that they are not assigned. Here one multi does it
    all: who dies before has changed nothing, who dies after has told everyone.
    """
    nodes = hosted.nodes
    closes = send(_others(nodes.replicas, rar), ChangeKind.CLOSE_REPLICA, hosted.name, nodes)
    moved = narrowed(isr, rar)
    stays_leader = state.me in rar
    if stays_leader and ends_epoch(closes):
        moved = replace(moved, epoch=isr.epoch + 1)
    operations: list[wr.Operation] = [
        *of_life(state.me, state.incarnation, nodes),
        wr.Put(isr_path(*hosted.name), moved, fenced_by(nodes)),
        wr.Put(replicas_path(*hosted.name), rar),
        wr.Delete(reassigned_path(*hosted.name), nodes.reassigned_version),
    ]
    if moved.epoch != isr.epoch or not stays_leader:
        operations.append(wr.Delete(leader_path(*hosted.name)))
    if moved.epoch != isr.epoch:
        operations.append(wr.Create(leader_path(*hosted.name), LeaderNode(state.me, moved.epoch)))
    return (state.write(hosted.name, (*operations, *closes)),)


def ends_epoch(closes: wr.Operations) -> bool:
    """Whether a new leader epoch begins with the end of a move: if a replica leaves. It may come back
    empty, and a late fetch of the epoch before must not speak for it."""
    return bool(closes)


def _others(broker_ids: tuple[int, ...], but_for: tuple[int, ...]) -> Iterator[int]:
    return (broker_id for broker_id in broker_ids if broker_id not in but_for)
