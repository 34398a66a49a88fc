"""One trace over two processes: the caller's span goes with the call, the callee's joins it."""

import asyncio
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide.v1 import replica_service_pb2 as pb
from hightide.v1.replica_service_pb2_grpc import ReplicaServiceStub
from hightide_local.traces.trace_lookup import failovers, read_spans
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.channels import open_channel
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE
from hightide_runtime.telemetry.span_kinds import BECOME_LEADER, FAILOVER, INFORM_BROKER
from hightide_runtime.telemetry.trace_context import traceparent_metadata
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.fixture
def telemetry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Telemetry:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    return Telemetry.set_up("controller", "1")


@pytest.fixture
def other_process(telemetry: Telemetry) -> Iterator[HostPort]:
    script = Path(__file__).with_name("traced_service.py")
    process = subprocess.Popen([sys.executable, script], stdout=subprocess.PIPE, env=os.environ, text=True)
    with process:
        assert process.stdout is not None
        yield HostPort.parse(process.stdout.readline())
        process.terminate()
    assert process.returncode == 0


def test_a_call_carries_the_trace_into_the_other_process(
    telemetry: Telemetry, other_process: HostPort, tmp_path: Path
) -> None:
    async def run() -> None:
        async with open_channel(other_process) as channel:
            stub = ReplicaServiceStub(channel)
            with telemetry.span(FAILOVER), telemetry.span(INFORM_BROKER):
                await stub.ReplicaFetch(pb.ReplicaFetchRequest(), timeout=10, metadata=traceparent_metadata())

    asyncio.run(run())
    telemetry.shut_down()
    (trace,) = failovers(tmp_path)
    (failover,) = trace.roots
    (inform,) = failover.children
    (become,) = inform.children
    assert [node.span.name for node in (failover, inform, become)] == [FAILOVER, INFORM_BROKER, BECOME_LEADER]
    assert [node.span.service for node in (failover, inform, become)] == [
        "controller",
        "controller",
        "broker",
    ]
    assert become.span.instance == "2"


def test_a_channel_of_the_data_path_carries_no_trace(
    telemetry: Telemetry, other_process: HostPort, tmp_path: Path
) -> None:
    async def run() -> None:
        async with open_channel(other_process) as channel:
            with telemetry.span(FAILOVER):
                await ReplicaServiceStub(channel).ReplicaFetch(pb.ReplicaFetchRequest(), timeout=10)

    asyncio.run(run())
    telemetry.shut_down()
    assert len({span.trace_id for span in read_spans(tmp_path)}) == 2
