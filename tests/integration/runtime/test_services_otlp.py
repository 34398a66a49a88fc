"""Spans and metrics of real services arrive at a collector, and harm nothing where it is gone."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from hightide import Admin, Producer
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_runtime.telemetry import span_kinds as kinds
from integration.runtime.otlp_collector import OtlpCollector

pytestmark = pytest.mark.cluster

ARRIVED_S = 60.0
STOPPED_S_MAX = 25.0
"""A stop takes a second or two; with an exporter that was waited for it took thirty."""
BROKER, CONTROLLER = "hightide-broker", "hightide-controller"


def test_a_collector_gets_spans_and_metrics_and_may_go_away(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with OtlpCollector() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", f"http://127.0.0.1:{collector.port}")
        monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment=drill")
        monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "100")
        monkeypatch.setenv("OTEL_METRIC_EXPORT_INTERVAL", "500")
        with LocalCluster(tmp_path / "cluster", brokers=1, controllers=1, coordinators=1) as cluster:
            with Admin(cluster.bootstrap) as admin:
                admin.create_topic("flights", partitions=2, replication_factor=1)
                arrived = {(CONTROLLER, kinds.TOPIC_CREATION), (BROKER, kinds.BECOME_LEADER)}
                wait_until("the spans have arrived", lambda: arrived <= collector.spans, ARRIVED_S)
                measured = {BROKER, CONTROLLER, "hightide-coordinator"}
                wait_until(
                    "each service's metrics have arrived",
                    lambda: measured <= {service for service, _ in collector.metrics},
                    ARRIVED_S,
                )
                assert collector.resources[BROKER]["service.instance.id"] == "1"
                assert collector.resources[BROKER]["deployment.environment"] == "drill"
                assert not list(cluster.trace_directory.glob("broker-*.jsonl")), "they go to one place"

                stopped_s = time.monotonic()
                collector.stop()
                for number in range(5):
                    admin.create_topic(f"later-{number}", partitions=2, replication_factor=1)
                with Producer(cluster.bootstrap) as producer:
                    began_s = time.monotonic()
                    for number in range(1_000):
                        producer.send("flights", b"x", partition=number % 2)
                    producer.flush()
                    assert time.monotonic() - began_s < STOPPED_S_MAX
            for name in ("broker-1", "controller-1"):
                began_s = time.monotonic()
                cluster.terminate(name)
                assert time.monotonic() - began_s < STOPPED_S_MAX, f"{name} waits for a collector"
                log = cluster.log_tail(name, 500)
                # Once a minute, of spans and of metrics.
                minutes_begun = 1 + int(time.monotonic() - stopped_s) // 60
                assert log.count("telemetry is not delivered") <= 2 * minutes_begun
                assert "Traceback" not in log
                assert "opentelemetry" not in log.lower().replace("telemetry is not delivered", "")


@pytest.mark.parametrize("service", ["broker", "controller", "coordinator"])
def test_a_protocol_that_is_not_spoken_is_refused_at_the_start_in_one_line(
    service: str, tmp_path: Path
) -> None:
    command = [sys.executable, "-m", f"hightide_{service}.main", f"--{service}-id", "1"]
    command += ["--zookeeper", "127.0.0.1:1"]
    if service == "broker":
        command += ["--data-dir", str(tmp_path / "data")]
    environment = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:4318",
        "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
    }
    ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=100)
    assert ended.returncode == 1, ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stderr.splitlines()[-1].startswith(f"hightide-{service}: error: OTEL_EXPORTER_OTLP_PROTOCOL")
    assert "grpc" in ended.stderr
