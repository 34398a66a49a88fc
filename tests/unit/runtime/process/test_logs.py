import logging
from collections.abc import Iterator

import pytest
from hightide_runtime.process.logs import set_up_logging


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


def test_events_below_the_level_are_not_written(capsys: pytest.CaptureFixture[str]) -> None:
    set_up_logging("WARNING", "broker-1")
    logging.getLogger("x").info("quiet")
    assert capsys.readouterr().err == ""
