"""How a broker is told where its logs lie."""

from __future__ import annotations

import pytest
from hightide_broker.settings import BrokerSettings


def data_dirs(*arguments: str) -> list[str]:
    settings = BrokerSettings.from_command_line(["--broker-id", "1", *arguments])
    return list(map(str, settings.data_dir))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["--data-dir", "/a"], ["/a"]),
        (["--data-dir", "/a", "--data-dir", "/b"], ["/a", "/b"]),
        (["--data-dir", "/a,/b", "--data-dir", "/c"], ["/a", "/b", "/c"]),
    ],
)
def test_data_dir_is_given_once_a_disk_or_with_commas(arguments: list[str], expected: list[str]) -> None:
    assert data_dirs(*arguments) == expected


def test_the_environment_separates_data_directories_by_commas(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHTIDE_BROKER_DATA_DIR", "/a, /b")
    assert data_dirs() == ["/a", "/b"]


@pytest.mark.parametrize(
    ("arguments", "why"),
    [
        (["--data-dir", "/a", "--data-dir", "/a/../a"], "/a/../a is given twice"),
        (["--data-dir", " , "], "it names no directory"),
        ([], "--data-dir is missing"),
    ],
)
def test_what_cannot_be_meant_is_refused(
    arguments: list[str], why: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        data_dirs(*arguments)
    assert why in capsys.readouterr().err
