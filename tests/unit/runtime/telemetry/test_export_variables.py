"""OpenTelemetry's own variables: who the process says it is, and whether it exports at all."""

import logging
from pathlib import Path

import pytest
from hightide_runtime.errors import StartupError
from hightide_runtime.telemetry.exporters import (
    COLLECTOR,
    TRACE_DIRECTORY_VARIABLE,
    export_target,
    quieten_exporters,
    resource_of,
)

ENDPOINT = "OTEL_EXPORTER_OTLP_ENDPOINT"


@pytest.fixture(autouse=True)
def _nothing_is_set(monkeypatch: pytest.MonkeyPatch) -> None:
    for variable in (
        ENDPOINT, "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
        "OTEL_EXPORTER_OTLP_PROTOCOL", "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_SDK_DISABLED",
        "OTEL_SERVICE_NAME", "OTEL_RESOURCE_ATTRIBUTES", "OTEL_TRACES_EXPORTER", "OTEL_METRICS_EXPORTER",
        TRACE_DIRECTORY_VARIABLE,
    ):  # fmt: skip
        monkeypatch.delenv(variable, raising=False)


def test_a_collector_goes_before_files(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, str(tmp_path))
    assert export_target("TRACES") == str(tmp_path)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "http://127.0.0.1:4317")
    assert export_target("TRACES") == COLLECTOR
    assert export_target("METRICS") == str(tmp_path)


def test_each_signal_can_be_turned_off_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_TRACES_EXPORTER", "none")
    assert export_target("TRACES") is None
    assert export_target("METRICS") == COLLECTOR
    monkeypatch.delenv(ENDPOINT)
    monkeypatch.setenv(TRACE_DIRECTORY_VARIABLE, "traces")
    assert export_target("TRACES") is None
    assert export_target("METRICS") == "traces"
    monkeypatch.setenv("OTEL_SDK_DISABLED", "TRUE")
    assert export_target("METRICS") is None


@pytest.mark.parametrize(
    ("variable", "value", "says"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "supports only grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "http/json", "supports only grpc"),
        ("OTEL_TRACES_EXPORTER", "zipkin", "set it to otlp or none"),
    ],
)
def test_what_there_is_not_is_refused_in_a_sentence(
    monkeypatch: pytest.MonkeyPatch, variable: str, value: str, says: str
) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4318")
    monkeypatch.setenv(variable, value)
    with pytest.raises(StartupError, match=says) as raised:
        export_target("TRACES")
    assert variable in str(raised.value)


def test_the_protocol_of_the_signal_goes_before_that_of_all(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(ENDPOINT, "http://127.0.0.1:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "grpc")
    assert export_target("TRACES") == COLLECTOR


def test_a_process_says_who_it_is_unless_it_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    assert resource_of("broker", "3").attributes["service.name"] == "hightide-broker"
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "service.instance.id=left,deployment.environment=prod")
    monkeypatch.setenv("OTEL_SERVICE_NAME", "log")
    found = resource_of("broker", "3").attributes
    assert (found["service.name"], found["service.instance.id"]) == ("log", "left")
    assert found["deployment.environment"] == "prod"


def test_an_exporter_without_a_collector_complains_once_and_not_with_each_attempt(
    caplog: pytest.LogCaptureFixture,
) -> None:
    quieten_exporters()
    exporter = logging.getLogger("opentelemetry.exporter.otlp.proto.grpc.exporter")
    with caplog.at_level(logging.WARNING):
        for attempt in range(5):
            exporter.warning("the collector is away, attempt %d", attempt)
    told = [record.getMessage() for record in caplog.records if "not delivered" in record.getMessage()]
    assert len(told) <= 1
