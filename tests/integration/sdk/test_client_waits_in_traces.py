"""The clients that waited for a leader change stand in the trace of it, beside controller and brokers."""

import asyncio
import json
import os
import re
import subprocess
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
from hightide import Admin, Consumer, Producer, aio, tracing
from hightide.calls.call import MessageCall, Method
from hightide.transport.transport import AioTransport, Transport
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse
from hightide_cli.main import cli
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_local.traces.trace_lookup import Trace, read_spans, traces_of
from hightide_runtime.telemetry import span_kinds as kinds
from hightide_runtime.telemetry.tracing import Telemetry
from integration.runtime.otlp_collector import OtlpCollector
from opentelemetry.sdk.trace import TracerProvider

pytestmark = pytest.mark.cluster

PARTITIONS = 4
TOPIC = "felt"
PATIENCE_S = 30.0


@pytest.fixture
def traced(hightide_cluster: LocalCluster) -> Iterator[LocalCluster]:
    """This process writes the spans of its clients where the services of the cluster do."""
    telemetry = Telemetry.set_up("client", "test", directory=hightide_cluster.trace_directory)
    provider = telemetry.provider
    assert provider is not None
    tracing.use(lambda: provider)
    yield hightide_cluster
    tracing.use(None)
    telemetry.shut_down()
    hightide_cluster.restore()


class Clients:
    """A blocking producer, a blocking consumer and an asyncio one, each on a thread, until told to stop."""

    def __init__(self, bootstrap: str) -> None:
        self._bootstrap = bootstrap
        self._stop = threading.Event()
        self.rounds = 0
        """How often each partition was sent a record."""
        self.acknowledged = 0
        self.read = {"blocking": 0, "asyncio": 0}
        self.threads = [
            threading.Thread(target=self._write),
            threading.Thread(target=self._consume),
            threading.Thread(target=lambda: asyncio.run(self._consume_on_a_loop())),
        ]

    def __enter__(self) -> "Clients":
        for thread in self.threads:
            thread.start()
        self.until_all_move(20)
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self.threads:
            thread.join()

    def until_all_move(self, count: int) -> None:
        """Each of them has come so much further."""
        acknowledged, read = self.acknowledged + count, {who: at + count for who, at in self.read.items()}
        wait_until(
            "all clients move",
            lambda: self.acknowledged >= acknowledged and all(self.read[who] >= read[who] for who in read),
            PATIENCE_S,
        )

    def until_all_partitions_are_sent_to(self) -> None:
        """Each of them has been sent a record since this was called."""
        rounds = self.rounds + 2
        wait_until("a record for each partition", lambda: self.rounds >= rounds, PATIENCE_S)

    def _write(self) -> None:
        with Producer(self._bootstrap, linger_ms=1, client_id="writer") as producer:
            while not self._stop.wait(0.005):
                for partition in range(PARTITIONS):
                    producer.send(TOPIC, b"x", partition=partition).add_done_callback(self._count)
                self.rounds += 1

    def _count(self, delivery: object) -> None:
        self.acknowledged += 1

    def _consume(self) -> None:
        with Consumer(self._bootstrap, topics=TOPIC, client_id="blocking") as consumer:
            while not self._stop.is_set():
                self.read["blocking"] += len(consumer.poll(0.1))

    async def _consume_on_a_loop(self) -> None:
        async with aio.Consumer(self._bootstrap, topics=TOPIC, client_id="asyncio") as consumer:
            while not self._stop.is_set():
                self.read["asyncio"] += len(await consumer.poll(0.1))


def failovers_with_clients(cluster: LocalCluster) -> list[Trace]:
    found = [
        trace for trace in traces_of(read_spans(cluster.trace_directory)) if trace.kind == kinds.FAILOVER
    ]
    return [trace for trace in found if trace.named(f"send {TOPIC}")]


def test_who_waited_for_a_new_leader_stands_in_the_trace_of_the_failover(
    traced: LocalCluster, tmp_path: Path
) -> None:
    with Admin(traced.bootstrap) as admin:
        admin.create_topic(TOPIC, assignment=[[2, 1, 3], [2, 3, 1]] * (PARTITIONS // 2))
    with Clients(traced.bootstrap) as clients:
        # A client waits for the leaders of those partitions only that it has sent something to.
        traced.pause("broker-2")
        clients.until_all_partitions_are_sent_to()
        traced.kill("broker-2")
        clients.until_all_move(100)

        def is_whole() -> bool:
            return any(
                trace.root.name == kinds.FAILOVER
                and len(trace.roots) == 1
                and len(trace.named(f"poll {TOPIC}")) == 2
                and {span.instance for span in trace.named(kinds.FIRST_COMMIT)} == {"1", "3"}
                for trace in failovers_with_clients(traced)
            )

        wait_until("the failover is traced, with all clients", is_whole, PATIENCE_S)
    (trace,) = failovers_with_clients(traced)
    (root,) = trace.roots
    (sent,) = trace.named(f"send {TOPIC}")
    polled = trace.named(f"poll {TOPIC}")
    assert {each.parent_id for each in (sent, *polled)} == {root.span.span_id}
    assert {each.attributes["messaging.client.id"] for each in polled} == {"blocking", "asyncio"}
    assert sent.attributes["messaging.destination.name"] == TOPIC
    assert sent.attributes["partition_count"] == PARTITIONS
    assert sent.attributes["partition_sample"] == ", ".join(f"{TOPIC}-{at}" for at in range(PARTITIONS))
    assert sent.attributes["leader_epoch"] == 1
    for each in (sent, *polled):
        assert each.attributes["waited_ms"] == pytest.approx(each.duration_us / 1000, abs=0.2)
    assert {span.service for span in trace.spans} == {"controller", "broker", "client"}
    shown(traced, trace, tmp_path)


def shown(cluster: LocalCluster, trace: Trace, directory: Path) -> None:
    """The command draws it, and its sentence adds up."""
    page, picture = directory / "trace.html", directory / "trace.png"
    command = ["trace", "show", trace.trace_id, "--directory", str(cluster.trace_directory)]
    drawn = CliRunner().invoke(cli, command).output
    sentence = re.search(
        r"^unavailable (\d+) ms: detect (\d+), elect (\d+), fan-out (\d+), first commit (\d+)"
        r"(?: \(after (?P<idle>\d+) ms without records\))?$",
        drawn,
        re.MULTILINE,
    )
    assert sentence is not None, drawn
    whole, *parts = map(int, sentence.groups()[:5])
    assert sum(parts) == whole
    assert re.search(rf"^clients waited up to \d+ ms: (send|poll) {TOPIC}, ", drawn, re.MULTILINE)
    written = CliRunner().invoke(cli, [*command, "--html", str(page), "--png", str(picture), "-o", "json"])
    document = json.loads(written.output)
    felt_us = trace.named(f"send {TOPIC}")[0].start_us
    assert document["sentence"] == sentence.group()
    assert document["kind"] == kinds.FAILOVER
    counted_ms = sum(part["ms"] for part in document["parts"])
    began_us = min(trace.root.start_us, felt_us)
    lasted_ms = [(span.end_us - began_us) / 1000 for span in trace.named(kinds.FIRST_COMMIT)]
    # One of the leaders is the one that is told of, with the time that it was sent nothing.
    idle_ms = int(sentence["idle"] or 0)
    assert any(each == pytest.approx(counted_ms + idle_ms, abs=1) for each in lasted_ms)
    assert len(page.read_bytes()) < 60_000
    assert sentence.group() in page.read_text()
    assert picture.read_bytes().startswith(b"\x89PNG")


class _Heard(grpc.GenericRpcHandler):
    """A server of any method, which notes what metadata it is called with and answers nothing."""

    def __init__(self) -> None:
        self.traceparents: dict[str, str] = {}

    def service(self, handler_call_details: Any) -> "grpc.RpcMethodHandler[bytes, bytes]":
        metadata = dict(handler_call_details.invocation_metadata)
        self.traceparents[handler_call_details.method] = metadata.get("traceparent", "")
        return grpc.unary_unary_rpc_method_handler(lambda request, context: b"")


@pytest.fixture
def heard() -> Iterator[tuple[_Heard, str]]:
    handler = _Heard()
    server = grpc.server(ThreadPoolExecutor(2))
    server.add_generic_rpc_handlers((handler,))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield handler, f"127.0.0.1:{port}"
    server.stop(None).wait()


@pytest.mark.parametrize("on_a_loop", [False, True])
def test_what_an_operators_program_asks_for_carries_its_span(
    heard: tuple[_Heard, str], on_a_loop: bool
) -> None:
    handler, address = heard
    question = MessageCall(address, Method.GET_METADATA, 30_000, GetMetadataRequest(), GetMetadataResponse)
    fetch = MessageCall(address, Method.FETCH, 30_000, GetMetadataRequest(), GetMetadataResponse)

    async def ask_on_a_loop() -> None:
        transport = AioTransport()
        await transport.run(question)
        await transport.run(fetch)
        await transport.close()

    with TracerProvider().get_tracer("nightly").start_as_current_span("rebuild") as span:
        if on_a_loop:
            asyncio.run(ask_on_a_loop())
        else:
            blocking = Transport()
            blocking.run(question)
            blocking.run(fetch)
            blocking.close()
        context = span.get_span_context()
    asked = f"00-{context.trace_id:032x}-{context.span_id:016x}-{int(context.trace_flags):02x}"
    assert handler.traceparents == {Method.GET_METADATA.value: asked, Method.FETCH.value: ""}


def test_with_a_collector_the_spans_of_a_program_of_ours_go_there() -> None:
    # What is registered first is called last: the program waits for us when its span is on its way.
    code = (
        "import atexit, sys\n"
        "atexit.register(sys.stdin.read)\n"
        "from hightide import tracing\n"
        "from hightide.cluster.leader_waits import LeaderWait\n"
        "from hightide_local.traces.client_traces import trace_clients\n"
        "assert trace_clients()\n"
        "tracing.Reporter('send', None).report([LeaderWait('felt', 1, (0,), 1, '', 0.0, 5.0)], 5.0)\n"
    )
    with OtlpCollector() as collector:
        environment = {**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{collector.port}"}
        program = subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE, env=environment)
        try:
            wait_until("the span has come", lambda: collector.spans, PATIENCE_S)
            program.communicate(timeout=PATIENCE_S)
        finally:
            program.kill()
        assert program.returncode == 0
    assert collector.spans == {("hightide-client", "send felt")}
