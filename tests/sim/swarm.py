"""What kind of a schedule a seed stands for: the cluster, how often each order is given, how leaders fall.

Rules of this file: swarm testing. Each seed leaves some faults out altogether and gives others often, since
a mix of everything hides what a few faults do together. Only healing (restart, resume, mend) is always in it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from random import Random

from sim.world import BROKERS, Settings

LEVELS = (0.0, 0.0, 0.3, 1.0, 2.0)
"""How strongly a fault that is drawn takes part."""


@dataclass(frozen=True)
class Orders:
    """How often each order of a random walk is given; a fault that a run does without has 0."""

    deliver: float
    settle: float
    produce: float
    delete: float
    advance: float
    lag: float
    lose: float
    duplicate: float
    delay: float
    let_arrive: float
    echo: float
    unknown: float
    depose: float
    crash: float
    bounce: float
    blackout: float
    replace_disk: float
    restart: float
    detect: float
    expire: float
    pause: float
    resume: float
    cut: float
    hold: float
    mend: float
    time_out: float
    fsync: float
    checkpoint: float
    controller_crash: float
    controllers_crash: float
    controller_expire: float

    @staticmethod
    def drawn(rng: Random) -> Orders:
        """Some faults often, some rarely, some not at all."""

        def fault(often: float) -> float:
            return often * rng.choice(LEVELS)

        return Orders(
            deliver=rng.choice((10.0, 20.0, 40.0)),
            settle=rng.choice((6.0, 10.0, 16.0)),
            produce=rng.choice((8.0, 16.0)),
            delete=fault(1.0),
            advance=rng.choice((3.0, 6.0)),
            lag=fault(1.5),
            lose=fault(2.0),
            duplicate=fault(1.5),
            delay=fault(2.0),
            let_arrive=rng.choice((0.3, 1.0, 3.0)),
            echo=fault(2.0),
            unknown=fault(1.5),
            depose=rng.choice((2.0, 3.0, 5.0)),
            crash=fault(1.0),
            bounce=fault(1.5),
            blackout=fault(0.5),
            replace_disk=fault(0.3),
            restart=rng.choice((3.0, 6.0)),
            detect=rng.choice((0.0, 3.0, 6.0)),
            expire=rng.choice((1.0, 2.0)),
            pause=fault(1.0),
            resume=rng.choice((2.0, 5.0)),
            cut=fault(1.0),
            hold=fault(1.5),
            mend=rng.choice((3.0, 6.0)),
            time_out=fault(1.0),
            fsync=rng.choice((2.0, 6.0)),
            checkpoint=0.5,
            controller_crash=fault(0.6),
            controllers_crash=fault(0.4),
            controller_expire=fault(0.6),
        )


@dataclass(frozen=True)
class Falls:
    """How often the leader falls in which way."""

    kill: float
    """Its process dies."""
    expire: float
    """Its session ends, and it lives."""
    pause: float
    """It stands still until its session has ended, and wakes up as a leader."""
    isolate: float
    """ZooKeeper does not hear it, and ends its session; its followers do."""

    @staticmethod
    def drawn(rng: Random) -> Falls:
        """At least one way has a chance."""
        falls = Falls(*(rng.choice((0.0, 0.5, 1.0)) for _ in fields(Falls)))
        return falls if any(odds_of(falls)) else Falls(1.0, 1.0, 1.0, 1.0)


def odds_of(drawn: Orders | Falls) -> list[float]:
    """The odds in the order of the fields, as `Random.choices` wants them."""
    return [getattr(drawn, field.name) for field in fields(drawn)]


def cluster_drawn(rng: Random) -> Settings:
    """Two or three replicas, min.insync.replicas 1 to 3, flush=replicated or fsync. Controllers may take it
    for another while a setting changes."""
    minimum = rng.choice((1, 1, 2, 2, 2, 3))
    return Settings(
        replicas=BROKERS if rng.random() < 0.8 else BROKERS[:2],
        min_insync_replicas=minimum,
        min_insync_known=minimum if rng.random() < 0.8 else rng.choice((1, 2, 3)),
        flush_on_disk=rng.random() < 0.3,
    )
