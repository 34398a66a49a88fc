"""No follower has to cut what it knows to be committed, unless an unclean election is the reason."""

from __future__ import annotations

from sim.checkers.checker import Checker


class NoDivergence(Checker):
    """A follower that would not cut its log accuses its leader of a loss: rightly, or it is wrong itself."""

    def check(self) -> None:
        for broker_id, offset in self.world.divergences:
            state = self.world.brokers[broker_id].state
            self.violated(
                f"{broker_id} is to cut at {offset}, below its high watermark {state.high_watermark}: "
                f"{state.decision}"
            )
