"""Who may lead a partition, and what a leader writes (V2 leaderElection, becomeLeader; V3's mends).

Theory of operation. The leader znode is ephemeral, and the first to create it leads. The text lets the
winner write its epoch afterwards. Here one multi creates the leader znode, and sets the ISR znode to the
next epoch if it has the version that was read. So whoever decided on old knowledge loses, and no epoch has
two leaders. The version of the ISR znode is the partition epoch: each election raises it, so a leader of
before cannot write an ISR any more.

A replica whose log may have lost its end is in `recovered`. It does not elect itself on its old word,
unless all that had everything are there and it has the longest log of them (as with a controller).
"""

from __future__ import annotations

from dataclasses import replace

from hightide_runtime.znodes import in_sync
from hightide_runtime.znodes.led_nodes import IsrNode, LeaderNode
from hightide_runtime.znodes.paths import incarnation_path, isr_path, leader_path, topic_id_path
from hightide_runtime.znodes.recovered_log import RecoveredLog

from hightide_leaders.core import writes as wr
from hightide_leaders.core.values import Lives, PartitionNodes, TopicPartition


def is_void(leader: LeaderNode, me: int, session: int) -> bool:
    """Whether nobody stands by the word of this leader znode: nobody can read it, or an earlier life of
    this broker made it. That life is over, though its session is not."""
    return leader.broker_id < 0 or (leader.broker_id == me and leader.session != session)


def trusted(nodes: PartitionNodes) -> frozenset[int]:
    """The replicas that have all committed records."""
    return in_sync.trusted(nodes.known_isr, nodes.assigned)


def may_lead(nodes: PartitionNodes, broker_id: int) -> bool:
    """Whether a replica may take part in the race (V2 leaderElection: it is in AR, and in the ISR or that
    is empty).

    An ISR is never empty here. A partition without an ISR znode never had a leader. During a move a new
    replica that is in sync may lead as well: the others may be dead.
    """
    if not nodes.replicas or broker_id not in nodes.assigned or nodes.is_being_deleted:
        return False
    return nodes.isr is None or broker_id in in_sync.who_has_most(nodes.isr, nodes.assigned)


def waits_for_another(nodes: PartitionNodes, me: int, lives: Lives) -> bool:
    """Whether this replica leaves the race to another for PreferredReplicaTime: the first of AR that may
    lead.

    The text waits for the first of AR, also where that one is dead or may not lead.
    """
    for broker_id in nodes.assigned:
        if broker_id in (lives.live | {me}) - lives.drained and may_lead(nodes, broker_id):
            return broker_id != me
    return False


def elected(nodes: PartitionNodes, me: int, lives: Lives) -> IsrNode:
    """The ISR with which this replica begins to lead: of those that are trusted, the ones that are alive.
    Whoever is alive and does not follow leaves it after KeepInSyncTime, by the broker's core."""
    known = nodes.isr
    epoch = nodes.epoch + 1
    if known is None:
        return IsrNode(epoch, (me,))
    if me not in trusted(nodes):
        rest = in_sync.recovered_beside((me,), known, nodes.assigned, nodes.min_insync_replicas)
        return IsrNode(epoch, (me,), recovered=rest, unclean_epoch=epoch)
    isr: tuple[int, ...] = (me,)
    if me in known.isr:
        staying = trusted(nodes) & set(known.isr) & lives.live
        isr = tuple(sorted({me, *staying}))
    return replace(_shrunk(nodes, known, isr), epoch=epoch)


def _shrunk(nodes: PartitionNodes, known: IsrNode, isr: tuple[int, ...]) -> IsrNode:
    """The ISR that is known, with these of its members."""
    of = known, nodes.assigned, nodes.min_insync_replicas
    eligible = tuple(sorted(in_sync.eligible_beside(isr, *of)))
    return replace(known, isr=isr, eligible=eligible, recovered=in_sync.recovered_beside(isr, *of))


def election(
    name: TopicPartition, nodes: PartitionNodes, me: int, incarnation: int, lives: Lives
) -> wr.Operations:
    """The write by which this replica becomes the leader, or nothing happens."""
    isr = elected(nodes, me, lives)
    put = wr.Put(isr_path(*name), isr, fenced_by(nodes))
    return (
        *of_life(me, incarnation, nodes),
        *end_of_term(name, nodes),
        wr.Create(leader_path(*name), LeaderNode(me, isr.epoch)),
        wr.Create(isr_path(*name), isr) if nodes.isr is None else put,
    )


def of_life(me: int, incarnation: int, nodes: PartitionNodes) -> wr.Operations:
    """Nothing happens unless this is the newest life of the broker, and the partition is there that was
    read."""
    return wr.Check(incarnation_path(me), incarnation), of_partition(nodes)


def of_partition(nodes: PartitionNodes) -> wr.Check:
    """Nothing happens unless the topic is there that was read, and none of its partitions was removed since:
    there may be another one of that number, whose znodes have the same versions."""
    return wr.Check(topic_id_path(nodes.topic_id), nodes.removals)


def end_of_term(name: TopicPartition, nodes: PartitionNodes, me: int | None = None) -> wr.Operations:
    """The leader znode goes, if there is one; with `me`, if it is that of this broker, also of an earlier
    life."""
    is_there = nodes.leader is not None and me in (None, nodes.leader.broker_id)
    return (wr.Delete(leader_path(*name)),) if is_there else ()


def narrowed(isr: IsrNode, assigned: tuple[int, ...]) -> IsrNode:
    """An ISR without the replicas that are not assigned any more."""
    return replace(
        isr,
        isr=tuple(sorted(each for each in isr.isr if each in assigned)),
        eligible=tuple(each for each in isr.eligible if each in assigned),
        recovered=tuple(log for log in isr.recovered if log.broker_id in assigned),
    )


def fenced_by(nodes: PartitionNodes) -> int:
    """The version that the ISR znode must still have for a write that was decided on this knowledge."""
    return nodes.version


def resignation(name: TopicPartition, nodes: PartitionNodes) -> wr.Operations:
    """The write by which a leader gives up its leader znode, and never that of a later leader."""
    return (
        of_partition(nodes),
        wr.Check(isr_path(*name), fenced_by(nodes)),
        wr.Delete(leader_path(*name)),
    )


def leaving(
    name: TopicPartition, nodes: PartitionNodes, me: int, incarnation: int, lives: Lives
) -> wr.Operations | None:
    """The write by which a broker that stops leaves the ISR, and gives up the leader znode if it has it, so
    that nobody waits for it; None if no other that is in sync is alive. What it acknowledged, the others in
    the ISR have.
    """
    known = nodes.isr
    if known is None or me not in known.isr:
        return None
    if not (trusted(nodes) & set(known.isr) & lives.live) - {me}:
        return None
    after = _shrunk(nodes, known, tuple(each for each in known.isr if each != me))
    put = wr.Put(isr_path(*name), after, fenced_by(nodes))
    return (*of_life(me, incarnation, nodes), *end_of_term(name, nodes, me), put)


def isr_change(
    name: TopicPartition, isr: IsrNode, expected_version: int, joining: tuple[tuple[int, int], ...]
) -> wr.Operations:
    """The write by which the replica that leads stores an ISR (V2 commit thread: ISR and CUR). Each that
    joins is still in the life that fetched. Called by the shell for the broker core's StoreIsr."""
    lives = tuple(wr.Check(incarnation_path(broker_id), incarnation) for broker_id, incarnation in joining)
    return (*lives, wr.Put(isr_path(*name), isr, fence_of_change(expected_version)))


def fence_of_change(expected_version: int) -> int:
    """The version that the ISR znode must have for a leader's change of the ISR."""
    return expected_version


def departure(
    name: TopicPartition, nodes: PartitionNodes, me: int, leader_epoch: int, log_end_offset: int
) -> wr.Operations | None:
    """The write by which a broker whose log may have lost its end takes itself out of the ISR, and says
    what it has; None if that is what ZooKeeper has. Called by the shell before the broker races for
    anything in this life.

    The last member stays in the ISR in name. A leader znode of its earlier life goes.
    """
    known = nodes.isr
    if known is None:
        return None
    log = RecoveredLog(me, leader_epoch, log_end_offset)
    others = tuple(each for each in known.recovered if each.broker_id != me)
    after = replace(
        known,
        isr=tuple(each for each in known.isr if each != me) or known.isr,
        eligible=tuple(each for each in known.eligible if each != me),
        recovered=tuple(sorted((*others, log))),
    )
    if after == known:
        return None
    return (*end_of_term(name, nodes, me), wr.Put(isr_path(*name), after, nodes.version))
