"""Figures of a service: where they go, and that they cost nothing where they go nowhere."""

from __future__ import annotations

import http.client
import json
import socket
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from hightide_local.histories.waiting import wait_until
from hightide_runtime.addresses import HostPort
from hightide_runtime.errors import StartupError
from hightide_runtime.serving.interceptors.timing import MethodTiming
from hightide_runtime.serving.rpc_metrics import METRICS as RPC_METRICS
from hightide_runtime.serving.rpc_metrics import rpc_readings
from hightide_runtime.telemetry.exporters import TRACE_DIRECTORY_VARIABLE
from hightide_runtime.telemetry.metric_declarations import (
    Distribution,
    MetricDeclaration,
    Readings,
    counter,
    gauge,
    histogram,
)
from hightide_runtime.telemetry.metric_export import Metrics
from hightide_runtime.telemetry.prometheus import PrometheusEndpoint
from prometheus_client import CollectorRegistry

ANY_PORT = HostPort("127.0.0.1", 0)
COMPLAINTS = gauge("hightide.test.complaints", "{complaint}", "what an operator should look at")
WRITTEN = counter("hightide.test.written", "By", "bytes that were written", "topic")
TOOK = histogram("hightide.test.write.duration", "s", "how long a write took", buckets=(0.1, 1.0))
METRICS = (COMPLAINTS, WRITTEN, TOOK)


def readings_of(*durations_s: float) -> Readings:
    took = Distribution(TOOK.buckets)
    for each in durations_s:
        took.record(each)
    return {COMPLAINTS.name: 2, WRITTEN.name: {("tides",): 100, ("moons",): 7}, TOOK.name: took}


@contextmanager
def scraped(monkeypatch: pytest.MonkeyPatch, readings: Readings) -> Iterator[str]:
    """The address of an endpoint that reports these."""
    monkeypatch.delenv(TRACE_DIRECTORY_VARIABLE, raising=False)
    metrics = Metrics.set_up("controller", "1", ANY_PORT)
    metrics.report(METRICS, lambda: readings)
    try:
        yield f"http://{metrics.prometheus_address}/metrics"
    finally:
        metrics.shut_down()


def get(url: str, accept: str = "") -> str:
    request = urllib.request.Request(url, headers={"Accept": accept} if accept else {})
    with urllib.request.urlopen(request, timeout=30) as answer:
        text: bytes = answer.read()
    return text.decode()


def lines_of(directory: Path) -> list[str]:
    """What was exported. Whoever shuts down waits for it for 2 s; a slow machine needs longer."""
    path = directory / "controller-1.metrics"
    return wait_until("metrics are exported", lambda: path.read_text().splitlines(), 30)


def exported_by(monkeypatch: pytest.MonkeyPatch, directory: Path, readings: Readings) -> list[dict[str, Any]]:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(directory))
    metrics = Metrics.set_up("controller", "1")
    metrics.report(METRICS, lambda: readings)
    metrics.shut_down()
    return [json.loads(line) for line in lines_of(directory)]


def test_metrics_are_read_when_they_are_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    metrics = Metrics.set_up("controller", "1")
    complaints = {"/admin/nonsense": "Hightide knows no request with this path"}
    metrics.report([COMPLAINTS], lambda: {COMPLAINTS.name: len(complaints)})
    complaints["/admin/more"] = "nothing either"
    metrics.shut_down()
    (line,) = lines_of(tmp_path)
    exported = json.loads(line)
    assert (exported["name"], exported["value"]) == (COMPLAINTS.name, 2)
    assert (exported["service"], exported["instance"]) == ("controller", "1")


def test_lines_tell_attributes_and_the_buckets_of_histograms(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _, tides, moons, took = exported_by(monkeypatch, tmp_path, readings_of(0.05, 0.5, 3.0))
    assert (tides["attributes"], tides["value"]) == ({"topic": "tides"}, 100)
    assert (moons["attributes"], moons["value"]) == ({"topic": "moons"}, 7)
    assert (took["count"], took["sum"], took["min"], took["max"]) == (3, 3.55, 0.05, 3.0)
    assert (took["bounds"], took["buckets"]) == ([0.1, 1.0], [1, 1, 1])


def test_without_anywhere_to_go_no_metric_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(TRACE_DIRECTORY_VARIABLE, raising=False)

    def read() -> Readings:
        raise AssertionError("nobody asked")

    metrics = Metrics.set_up("controller", "1")
    metrics.report(METRICS, read)
    assert not metrics.enabled
    metrics.shut_down()


def test_what_cannot_be_read_costs_the_others_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    metrics = Metrics.set_up("controller", "1")

    def fail() -> Readings:
        raise OSError("the disk does not answer")

    metrics.report([WRITTEN], fail)
    metrics.report([TOOK], lambda: {TOOK.name: Distribution(), "hightide.test.undeclared": 1})
    metrics.report([COMPLAINTS], lambda: {COMPLAINTS.name: 0})
    metrics.shut_down()
    lines = map(json.loads, lines_of(tmp_path))
    assert [line["name"] for line in lines] == [COMPLAINTS.name]
    assert "the disk does not answer" in caplog.text
    assert "hightide.test.undeclared" in caplog.text


def test_prometheus_scrapes_them_under_the_names_that_are_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    with scraped(monkeypatch, readings_of(0.05, 0.5, 3.0)) as url:
        lines = get(url).splitlines()
    assert f"{COMPLAINTS.prometheus_name} 2.0" in lines
    assert f'{WRITTEN.prometheus_name}{{topic="tides"}} 100.0' in lines
    assert f'{TOOK.prometheus_name}_bucket{{le="0.1"}} 1.0' in lines
    assert f'{TOOK.prometheus_name}_bucket{{le="+Inf"}} 3.0' in lines
    assert f"{TOOK.prometheus_name}_count 3.0" in lines
    assert f"# HELP {COMPLAINTS.prometheus_name} what an operator should look at" in lines
    identity = next(line for line in lines if line.startswith("target_info{"))
    assert 'service_name="hightide-controller"' in identity
    assert 'service_instance_id="1"' in identity


@pytest.mark.parametrize(
    ("metric", "name"),
    [
        (COMPLAINTS, "hightide_test_complaints"),
        (WRITTEN, "hightide_test_written_bytes_total"),
        (TOOK, "hightide_test_write_duration_seconds"),
        (gauge("hightide.test.active", "{service}", "1 or 0"), "hightide_test_active"),
        (gauge("hightide.test.free_bytes", "By", "room"), "hightide_test_free_bytes"),
    ],
)
def test_names_are_spelled_as_prometheus_likes_them(metric: MetricDeclaration, name: str) -> None:
    assert metric.prometheus_name == name


def test_no_metric_has_a_unit_that_a_collector_spells_otherwise() -> None:
    """Of a gauge whose unit is "1" a collector makes `…_ratio`, for which no alert asks."""
    with pytest.raises(AssertionError, match="active"):
        gauge("hightide.test.active", "1", "1 or 0")


def test_lines_and_prometheus_are_told_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    metrics = Metrics.set_up("controller", "1", ANY_PORT)
    metrics.report(METRICS, lambda: readings_of())
    assert f"{COMPLAINTS.prometheus_name} 2.0" in get(f"http://{metrics.prometheus_address}/metrics")
    metrics.shut_down()
    assert any(f'"name":"{COMPLAINTS.name}"' in line for line in lines_of(tmp_path))


def test_what_is_not_known_is_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    with scraped(monkeypatch, {**readings_of(), COMPLAINTS.name: {}}) as url:
        lines = get(url).splitlines()
    assert [line for line in lines if line.startswith(COMPLAINTS.prometheus_name)] == []
    assert f"# TYPE {COMPLAINTS.prometheus_name} gauge" in lines


def test_scrapes_follow_each_other(monkeypatch: pytest.MonkeyPatch) -> None:
    with scraped(monkeypatch, readings_of(0.05)) as url:
        assert get(url) == get(url)
        assert get(url, accept="application/openmetrics-text; version=1.0.0").endswith("# EOF\n")


def test_elsewhere_there_is_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with scraped(monkeypatch, readings_of()) as url, pytest.raises(urllib.error.HTTPError, match="404") as it:
        get(url.removesuffix("/metrics"))
    assert it.value.read() == b"the metrics are at /metrics\n"


def test_who_connects_and_says_nothing_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    with scraped(monkeypatch, readings_of()) as url:
        host, _, port = url.removeprefix("http://").removesuffix("/metrics").rpartition(":")
        with socket.create_connection((host, int(port))):
            assert COMPLAINTS.prometheus_name in get(url)


def test_who_sends_a_byte_now_and_then_does_not_keep_a_place_of_scrapers() -> None:
    endpoint = PrometheusEndpoint(ANY_PORT, CollectorRegistry(), connection_s=0.2)

    def is_over() -> bool:
        # Each byte puts off for long that the server gives up to read.
        try:
            dripping.sendall(b"G")
            return dripping.recv(1) == b""
        except TimeoutError:
            return False
        except ConnectionError:
            return True

    with socket.create_connection((endpoint.address.host, endpoint.address.port)) as dripping:
        dripping.settimeout(0.05)
        wait_until("the connection is broken off", is_over, 30)
    endpoint.close()


def test_a_scrape_that_fails_is_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    class Failing(CollectorRegistry):
        def collect(self) -> Any:
            raise RuntimeError("a metric that is no number")

    endpoint = PrometheusEndpoint(ANY_PORT, Failing())
    with pytest.raises(http.client.RemoteDisconnected):
        get(f"http://{endpoint.address}/metrics")
    endpoint.close()
    assert "a metric that is no number" in caplog.text


def test_a_port_that_is_taken_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    with scraped(monkeypatch, readings_of()) as url:
        taken = HostPort.parse(url.removeprefix("http://").removesuffix("/metrics"))
        with pytest.raises(
            StartupError, match=rf"port {taken.port} of 127\.0\.0\.1 is in use.*--prometheus-"
        ):
            Metrics.set_up("broker", "1", taken)


def test_a_distribution_counts_a_value_on_a_bound_below_it() -> None:
    took = Distribution((1.0, 2.0))
    for each in (0.0, 1.0, 1.5, 2.0, 9.0):
        took.record(each)
    assert (took.counts, took.count, took.total, took.largest) == ([2, 2, 1], 5, 13.5, 9.0)


def test_a_method_appears_with_its_first_call() -> None:
    timings = {"/hightide.v1.A/Asked": MethodTiming(begun=2), "/hightide.v1.A/Idle": MethodTiming()}
    timings["/hightide.v1.A/Asked"].add(0)
    readings = rpc_readings(timings)()
    assert readings.keys() == {metric.name for metric in RPC_METRICS}
    assert readings["rpc.server.calls_in_hand"] == {("hightide.v1.A/Asked",): 1}


def test_what_several_parts_of_a_process_have_counted_adds_up() -> None:
    parts = [Distribution((1.0, 2.0)) for _ in range(3)]
    parts[0].record(0.5)
    parts[2].record(1.5)
    parts[2].record(7.0)
    whole = Distribution.of_all(parts)
    assert (whole.counts, whole.total, whole.smallest, whole.largest) == ([1, 1, 1], 9.0, 0.5, 7.0)
    assert parts[0].counts == [1, 0, 0]
