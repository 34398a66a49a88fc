"""What servers say does not control the terminal, wherever it is printed."""

from collections.abc import Callable

import pytest
from hightide import ReplicaListing
from hightide_cli.cluster.health_report import Holdings, health_text
from hightide_cli.doctor.findings import findings_text, warn
from hightide_cli.main import main
from hightide_cli.topic.tables import silent_lines
from unit.cli.answering_server import AnsweringServer
from unit.cli.cluster.test_health import WELL

EVIL = "gone\x1b[2J\x1b]0;title\x07"
HARMLESS = r"gone\x1b[2J\x1b]0;title\x07"


@pytest.mark.parametrize(
    "printed",
    [
        lambda: health_text(WELL, Holdings(silent_brokers={1: EVIL})),
        lambda: health_text(WELL, Holdings(coordinators=("a:1",), silent_coordinators={EVIL: "no"})),
        lambda: findings_text([warn("clocks", EVIL, "see")]),
        lambda: findings_text([warn("clocks", "see", EVIL)]),
        lambda: "\n".join(silent_lines(ReplicaListing((), {1: EVIL}))),
    ],
)
def test_a_report_escapes_it(printed: Callable[[], str]) -> None:
    text = printed()
    assert HARMLESS in text
    assert text.replace("\n", "").isprintable()


@pytest.mark.parametrize("words", [("version",), ("config", "show", "{address}")])
def test_a_remark_beside_the_results_escapes_it(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    server = AnsweringServer()
    server.refusal = EVIL
    main([*(word.format(address=server.address) for word in words), "--bootstrap", server.address])
    said = capsys.readouterr().err
    assert HARMLESS in said
    assert "\x1b" not in said
