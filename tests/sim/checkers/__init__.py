"""What must hold of a simulated cluster after every order; each in a file of its own.

The names are those of the published models (KafkaReplication, Kip320), and of docs/protocol.md.
"""

from __future__ import annotations

from typing import Final

from sim.checkers.acknowledged import Acknowledged
from sim.checkers.checker import Checker, Violation
from sim.checkers.committing_leader import CommittingLeader
from sim.checkers.divergence import NoDivergence
from sim.checkers.high_watermark import HighWatermark
from sim.checkers.log_matching import LogMatching
from sim.checkers.log_start import LogStart
from sim.checkers.lost_power import LostPower
from sim.checkers.strong_isr import StrongIsr
from sim.checkers.znodes import Znodes

__all__ = ["ALL_CHECKERS", "Checker", "Violation"]

ALL_CHECKERS: Final = (
    LostPower,
    Acknowledged,
    StrongIsr,
    LogMatching,
    LogStart,
    HighWatermark,
    CommittingLeader,
    Znodes,
    NoDivergence,
)
