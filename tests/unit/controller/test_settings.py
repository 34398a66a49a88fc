"""What a controller's settings refuse."""

from __future__ import annotations

import pytest
from hightide_controller.settings import ControllerSettings


@pytest.mark.parametrize("timeout_ms", [0, 300, 1_200])
def test_a_ping_timeout_is_long_enough_for_an_answer_or_off(timeout_ms: int) -> None:
    arguments = ["--controller-id", "1", "--broker-ping-timeout-ms", str(timeout_ms)]
    assert ControllerSettings.from_command_line(arguments).broker_ping_timeout_ms == timeout_ms


@pytest.mark.parametrize("timeout_ms", [-1, 1, 299])
def test_a_ping_timeout_that_no_answer_can_meet_is_refused(
    timeout_ms: int, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit) as exited:
        ControllerSettings.from_command_line(
            ["--controller-id", "1", f"--broker-ping-timeout-ms={timeout_ms}"]
        )
    assert exited.value.code == 2
    assert "--broker-ping-timeout-ms" in capsys.readouterr().err
