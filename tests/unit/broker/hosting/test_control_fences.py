"""Whom a broker obeys: the fence in front of every order."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from control_rig import BROKER_EPOCH, Rig, decision, request, run, stamp, stop
from hightide.v1.errors_pb2 import ErrorCode
from hightide_broker.cluster.partition_decisions import Stamp
from hightide_runtime.errors import ServiceError


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
