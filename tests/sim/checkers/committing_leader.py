"""One committing leader for each epoch."""

from __future__ import annotations

from sim.checkers.checker import Checker


class CommittingLeader(Checker):
    """In one leader epoch at most one broker moves its high watermark as leader."""

    def __init__(self, world: object) -> None:
        super().__init__(world)  # type: ignore[arg-type]
        self._leaders: dict[int, int] = {}

    def check(self) -> None:
        for leader_epoch, broker_id, _ in self.world.commits:
            known = self._leaders.setdefault(leader_epoch, broker_id)
            if known != broker_id:
                self.violated(f"{known} and {broker_id} both committed in epoch {leader_epoch}")
