import json
import logging
import re
from collections.abc import Iterator
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from google.protobuf.message import DecodeError
from grpc._cython import cygrpc  # type: ignore[attr-defined]
from hightide_runtime.process.logs import LogFormat, set_up_logging
from hightide_runtime.telemetry.tracing import Telemetry


@pytest.fixture(autouse=True)
def _logging_as_before() -> Iterator[None]:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)


def test_an_event_is_one_line_even_where_a_client_chose_its_text(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "broker-1")
    logging.getLogger("x").info("client %s", "a\n2026-01-01 ERROR forged\x1b[31m\u2028")
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert lines[0].endswith(r"INFO broker-1 x: client a\n2026-01-01 ERROR forged\x1b[31m\u2028")


def test_a_traceback_follows_indented(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "broker-1")
    try:
        raise KeyError("why")
    except KeyError:
        logging.getLogger("x").exception("it failed")
    first, *rest = capsys.readouterr().err.splitlines()
    assert first.endswith("ERROR broker-1 x: it failed")
    assert rest
    assert all(line.startswith("  ") for line in rest)


@pytest.mark.parametrize("fault", [cygrpc.ExecuteBatchError, DecodeError])
def test_callers_that_go_away_or_send_no_message_fill_no_log(
    fault: type[Exception], capsys: pytest.CaptureFixture[str]
) -> None:
    set_up_logging("INFO", "broker-1")
    log = logging.getLogger("grpc._cython.cygrpc")
    try:
        raise fault
    except fault:
        log.exception("raised in core by servicer method [/x]")
        assert capsys.readouterr().err == ""
        logging.getLogger("x").exception("one of our own")
        assert capsys.readouterr().err
    log.error("what else gRPC says")
    assert capsys.readouterr().err.endswith("what else gRPC says\n")


def test_events_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("WARNING", "broker-1")
    logging.getLogger("x").info("quiet")
    assert capsys.readouterr().err == ""


def test_an_event_in_json_is_one_object_on_one_line_whatever_a_client_sends(
    capsys: pytest.CaptureFixture[str],
) -> None:
    set_up_logging("INFO", "broker-1", LogFormat.JSON)
    text = 'a\n{"level": "ERROR"}\x1b[31m\u2028\ud800'
    logging.getLogger("x").info("client %s", text)
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert line.isascii()
    at = datetime.fromisoformat(event.pop("time"))
    assert at.utcoffset() == timedelta(0)
    assert event == {"level": "INFO", "service": "broker-1", "logger": "x", "message": f"client {text}"}


def test_an_event_in_json_has_its_traceback_within_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("INFO", "broker-1", LogFormat.JSON)
    try:
        raise KeyError("why")
    except KeyError:
        logging.getLogger("x").exception("it failed")
    (line,) = capsys.readouterr().err.splitlines()
    event = json.loads(line)
    assert event["message"] == "it failed"
    assert re.fullmatch(r"(?s)Traceback .*KeyError: 'why'", event["exception"])


def test_an_event_in_json_names_the_trace_in_which_it_happened(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    set_up_logging("INFO", "broker-1", LogFormat.JSON)
    telemetry = Telemetry.set_up("broker", "1", directory=tmp_path)
    with telemetry.span("failover") as span:
        logging.getLogger("x").info("within")
    logging.getLogger("x").info("after")
    within, after = map(json.loads, capsys.readouterr().err.splitlines())
    telemetry.shut_down()
    assert within["trace_id"] == span.traceparent.split("-")[1]
    assert "trace_id" not in after


def test_the_page_on_operating_names_every_field_of_an_event_in_json(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    set_up_logging("INFO", "broker-1", LogFormat.JSON)
    telemetry = Telemetry.set_up("broker", "1", directory=tmp_path)
    with telemetry.span("failover"):
        logging.getLogger("x").error("it failed", exc_info=KeyError("why"))
    telemetry.shut_down()
    event = json.loads(capsys.readouterr().err)
    page = (Path(__file__).resolve().parents[4] / "docs" / "operating.md").read_text()
    table = page.partition("With `--log-format json`")[2].partition("\n\n")[2].partition("\n\n")[0]
    assert re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE) == list(event)
