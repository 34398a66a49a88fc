"""The elections for one ephemeral znode: at most one process is elected under an epoch, whatever comes
between its reads and its multi."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import cast

from hightide_runtime.zookeeper.election import ElectedProcess, Election, ElectionEpoch, ElectionZnodes
from hightide_runtime.zookeeper.session import (
    BadVersion,
    ConnectionLost,
    Create,
    Delete,
    NodeExists,
    NoNode,
    Operation,
    SetData,
    Znode,
    ZooKeeperSession,
)

ZNODES = ElectionZnodes(
    "/active",
    "/epoch",
    lambda holder: f"{holder.id} {holder.epoch}".encode(),
    lambda data: ElectedProcess(int(data.split()[0]), "host", 1, int(data.split()[1])),
    lambda epoch: str(epoch).encode(),
    int,
)


class Znodes:
    """What ZooKeeper holds. A multi happens as a whole, under versions, or not at all."""

    def __init__(self) -> None:
        self.held: dict[str, Znode] = {}

    @property
    def epoch(self) -> int:
        return int(self.held["/epoch"].data)

    @property
    def holder(self) -> int:
        return ZNODES.decode(self.held["/active"].data).id

    def end_session(self, session_id: int) -> None:
        self.held = {p: z for p, z in self.held.items() if z.ephemeral_owner != session_id}

    def apply(self, operation: Operation, session_id: int) -> int:
        path, held = operation.path, self.held.get(operation.path)
        if isinstance(operation, Create):
            if held is not None:
                raise NodeExists(path)
            owner = session_id if operation.ephemeral else 0
            self.held[path] = Znode(path, operation.data, 0, 1, owner)
            return 0
        if held is None:
            raise NoNode(path)
        if operation.version not in (-1, held.version):
            raise BadVersion(path)
        if isinstance(operation, Delete):
            del self.held[path]
            return -1
        assert isinstance(operation, SetData)
        self.held[path] = Znode(path, operation.data, held.version + 1, 1)
        return held.version + 1


class Session:
    """The session of one candidate. `meanwhile` happens once, between its reads and its next multi."""

    def __init__(self, znodes: Znodes, session_id: int) -> None:
        self._znodes = znodes
        self.session_id = session_id
        self.meanwhile: Callable[[], Awaitable[object]] | None = None
        self.loses_the_answer = False

    async def exists(self, path: str, *, watch: bool = False) -> Znode | None:
        return self._znodes.held.get(path)

    async def get(self, path: str, *, watch: bool = False) -> Znode:
        if path not in self._znodes.held:
            raise NoNode(path)
        return self._znodes.held[path]

    async def delete(self, path: str, version: int = -1) -> None:
        self._znodes.apply(Delete(path, version), self.session_id)

    async def multi(self, operations: Sequence[Operation]) -> tuple[int, ...]:
        meanwhile, self.meanwhile = self.meanwhile, None
        if meanwhile is not None:
            await meanwhile()
        before = dict(self._znodes.held)
        try:
            versions = tuple(self._znodes.apply(each, self.session_id) for each in operations)
        except (BadVersion, NodeExists, NoNode):
            self._znodes.held = before
            raise
        if self.loses_the_answer:
            self.loses_the_answer = False
            raise ConnectionLost("the answer is lost", outcome_unknown=True)
        return versions


class Candidate:
    """A process that stands for election."""

    def __init__(self, znodes: Znodes, candidate_id: int) -> None:
        self.session = Session(znodes, 100 + candidate_id)
        self._me = ElectedProcess(candidate_id, "host", 1)
        self.election = Election(cast(ZooKeeperSession, self.session), ZNODES)

    async def stands(self, stale_epoch: int | None = None) -> ElectionEpoch | None:
        return await self.election.elect(self._me, stale_epoch)


def play(story: Callable[[Znodes, Candidate, Candidate, Candidate], Awaitable[None]]) -> None:
    znodes = Znodes()
    asyncio.run(asyncio.wait_for(_told(story, znodes), 60))


async def _told(
    story: Callable[[Znodes, Candidate, Candidate, Candidate], Awaitable[None]], znodes: Znodes
) -> None:
    await story(znodes, Candidate(znodes, 1), Candidate(znodes, 2), Candidate(znodes, 3))


def test_each_election_has_an_epoch_of_its_own() -> None:
    async def story(znodes: Znodes, first: Candidate, second: Candidate, third: Candidate) -> None:
        assert await first.stands() == ElectionEpoch(1, 0)
        assert await second.stands() is None
        await first.election.abdicate()
        assert await second.stands() == ElectionEpoch(2, 1)
        assert (znodes.holder, znodes.epoch) == (2, 2)

    play(story)


def test_an_election_that_another_one_came_and_went_before_does_not_have_its_epoch_again() -> None:
    async def story(znodes: Znodes, first: Candidate, second: Candidate, third: Candidate) -> None:
        await first.stands()
        await first.election.abdicate()

        async def another_term() -> None:
            assert await third.stands() == ElectionEpoch(2, 1)
            await third.election.abdicate()

        second.session.meanwhile = another_term
        # The znode is free, as it was when it was read; only the epoch tells that somebody was there.
        assert await second.stands() is None
        assert znodes.epoch == 2
        assert await second.stands() == ElectionEpoch(3, 2)

    play(story)


def test_of_two_that_succeed_a_dead_one_the_second_does_not_push_the_first_out() -> None:
    async def story(znodes: Znodes, dead: Candidate, second: Candidate, third: Candidate) -> None:
        stale = await dead.stands()
        assert stale is not None

        async def another_is_quicker() -> None:
            assert await third.stands(stale.epoch) == ElectionEpoch(2, 1)

        second.session.meanwhile = another_is_quicker
        # Both znodes have version 0: only the epoch tells them apart.
        assert await second.stands(stale.epoch) is None
        assert (znodes.holder, znodes.epoch) == (3, 2)

    play(story)


def test_who_was_elected_since_is_not_pushed_out_for_the_death_of_the_one_before() -> None:
    async def story(znodes: Znodes, dead: Candidate, second: Candidate, third: Candidate) -> None:
        stale = await dead.stands()
        assert stale is not None
        znodes.end_session(dead.session.session_id)
        assert await third.stands() == ElectionEpoch(2, 1)
        assert await second.stands(stale.epoch) is None
        assert (znodes.holder, znodes.epoch) == (3, 2)

    play(story)


def test_nobody_is_pushed_out_under_an_epoch_that_an_operator_has_moved() -> None:
    async def story(znodes: Znodes, dead: Candidate, second: Candidate, third: Candidate) -> None:
        stale = await dead.stands()
        assert stale is not None
        znodes.apply(SetData("/epoch", b"7", -1), 0)
        assert await second.stands(stale.epoch) is None
        assert znodes.holder == 1

    play(story)


def test_what_an_operator_has_put_into_the_seat_is_not_taken_for_the_dead_one() -> None:
    async def story(znodes: Znodes, dead: Candidate, second: Candidate, third: Candidate) -> None:
        stale = await dead.stands()
        assert stale is not None
        znodes.apply(SetData("/active", b"9 0", -1), 0)
        assert await second.stands(stale.epoch) is None
        assert (znodes.holder, znodes.epoch) == (9, 1)

    play(story)


def test_an_election_that_was_won_unheard_is_taken_up_under_its_own_epoch() -> None:
    async def story(znodes: Znodes, first: Candidate, second: Candidate, third: Candidate) -> None:
        await first.stands()
        await first.election.abdicate()
        second.session.loses_the_answer = True
        assert await second.stands() == ElectionEpoch(2, 1)
        assert (znodes.holder, znodes.epoch) == (2, 2)

    play(story)


def test_the_seat_of_another_session_is_not_taken_for_ones_own() -> None:
    async def story(znodes: Znodes, first: Candidate, second: Candidate, third: Candidate) -> None:
        earlier_life = Candidate(znodes, 1)
        earlier_life.session.session_id = 999
        await earlier_life.stands()
        assert await first.election.epoch_held(1) is None
        await first.election.abdicate()
        assert znodes.holder == 1

    play(story)


def test_an_epoch_that_an_operator_takes_away_does_not_begin_anew() -> None:
    async def story(znodes: Znodes, first: Candidate, second: Candidate, third: Candidate) -> None:
        await first.stands()
        await first.election.abdicate()
        assert await second.stands() == ElectionEpoch(2, 1)
        await second.election.abdicate()
        del znodes.held["/epoch"]
        assert await second.stands() == ElectionEpoch(3, 0)

    play(story)
