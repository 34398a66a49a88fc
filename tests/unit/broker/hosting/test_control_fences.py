"""Whom a broker obeys: the fence in front of every order."""

from __future__ import annotations

from pathlib import Path

import pytest
from control_rig import (
    BROKER_EPOCH,
    TOPIC_ID,
    Rig,
    decision,
    described,
    request,
    run,
    stamp,
    stop,
    update,
)
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.partition_decisions import Stamp
from hightide_runtime.errors import ServiceError
from msgspec.structs import replace


@pytest.mark.parametrize(
    ("meant", "refusal"),
    [
        (replace(stamp(), cluster_id="another"), ErrorCode.ERROR_CODE_INCONSISTENT_CLUSTER_ID),
        (replace(stamp(), broker_epoch=BROKER_EPOCH - 1), ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH),
        (replace(stamp(), broker_epoch=BROKER_EPOCH + 1), ErrorCode.ERROR_CODE_STALE_BROKER_EPOCH),
    ],
)
def test_orders_of_another_cluster_or_for_another_life_of_the_broker_are_refused(
    tmp_path: Path, meant: Stamp, refusal: ErrorCode.ValueType
) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.decide(decision())
        with pytest.raises(ServiceError) as caught:
            await rig.control.stop_replicas(meant, [stop()])
        assert caught.value.code == refusal
        with pytest.raises(ServiceError) as caught:
            await rig.control.leader_and_isr(meant, request(decision(epoch=9)))
        assert caught.value.code == refusal
        assert rig.replica().state.leader_epoch == 0

    run(tmp_path, scenario)


def test_a_request_that_its_controller_has_given_up_is_refused(tmp_path: Path) -> None:
    """It says what it still means in a later one. What it does not mean any more is not to come back."""

    async def scenario(rig: Rig) -> None:
        await rig.control.update_metadata(replace(stamp(), sequence=3), update(described((1, 2)), full=True))
        await rig.control.update_metadata(replace(stamp(), sequence=5), update(deleted=(TOPIC_ID,)))
        for late in (
            rig.control.leader_and_isr(replace(stamp(), sequence=4), request(decision())),
            rig.control.stop_replicas(replace(stamp(), sequence=4), [stop()]),
            rig.control.update_metadata(replace(stamp(), sequence=4), update(described((1, 2)))),
        ):
            with pytest.raises(ServiceError, match="request 4 of controller 9") as caught:
                await late
            assert caught.value.code == ErrorCode.ERROR_CODE_TIMED_OUT
        assert not rig.runs()
        assert rig.metadata.topics() == []

    run(tmp_path, scenario)


@pytest.mark.parametrize(
    "heard",
    [
        replace(stamp(), sequence=5),
        replace(stamp(), sequence=6),
        replace(stamp(controller_epoch=6), sequence=1),
        stamp(),
    ],
    ids=[
        "the same again",
        "the next",
        "the first of the next controller",
        "one without a number",
    ],
)
def test_any_other_is_carried_out(tmp_path: Path, heard: Stamp) -> None:
    async def scenario(rig: Rig) -> None:
        await rig.control.update_metadata(replace(stamp(), sequence=5), update(full=True))
        await rig.control.update_metadata(heard, update(described((1, 2))))
        assert len(rig.metadata.topics()) == 1

    run(tmp_path, scenario)
