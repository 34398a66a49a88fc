"""Which replica is new, so that it may lead in the epoch of the first decision that it hears."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_rig import Rig, codes, decision, request, run
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.partition_decisions import PartitionDecision

OK = ErrorCode.ERROR_CODE_UNSPECIFIED
FENCED = ErrorCode.ERROR_CODE_FENCED_LEADER_EPOCH


@pytest.mark.parametrize(
    ("decided", "is_live", "code"),
    [
        (decision(), True, OK),
        (decision(epoch=2, first_epoch=2), True, OK),
        (decision(), False, FENCED),
        (decision(epoch=1), True, FENCED),
    ],
    ids=["the first decision", "of a number that was in use", "read at the start", "not the first decision"],
)
def test_only_a_first_decision_that_is_made_just_now_proves_that_no_earlier_life_led(
    tmp_path: Path, decided: PartitionDecision, is_live: bool, code: ErrorCode.ValueType
) -> None:
    """Its directory may be gone with the power, or with its disk: that there is none says nothing."""

    async def scenario(rig: Rig) -> None:
        found = await rig.control.decide(request(decided), is_live=is_live)
        assert codes(found) == [code]
        assert rig.replica().state.is_leader == (code == OK)

    run(tmp_path, scenario)


def test_a_first_decision_that_was_read_at_the_start_is_not_made_just_now_when_it_is_told_again(
    tmp_path: Path,
) -> None:
    async def scenario(rig: Rig) -> None:
        assert codes(await rig.control.decide(request(decision()), is_live=False)) == [FENCED]
        assert codes(await rig.control.decide(request(decision()))) == [FENCED]
        assert codes(await rig.control.decide(request(decision(epoch=1, version=1)))) == [OK]

    run(tmp_path, scenario)
