"""How progress reads, on a terminal and for programs."""

import click
import pytest
from hightide import Admin, Reassignment, TopicPartition
from hightide.errors import BrokersUnavailableError
from hightide_cli.command_line.choices import Choices
from hightide_cli.main import cli
from hightide_cli.reassign.progress import Copy, MoveProgress, Progress
from hightide_cli.reassign.watch import move_line, progress_document, summary_line, watch_moves

MOVE = Reassignment(TopicPartition("t", 0), bytes(16), (1, 2), (3, 4), (1, 2, 3, 4), (1, 2, 4), 1)
HALF = MoveProgress(
    MOVE, (Copy(3, 0, 1_000, 0, 1_234, in_sync=False), Copy(4, 1_000, 1_000, 9, 9, in_sync=True))
)


def progress(**changes: object) -> Progress:
    figures: dict[str, object] = {
        "moves": (HALF,),
        "finished": (TopicPartition("t", 1),),
        "bytes_done": 1_000,
        "bytes_total": 2_000,
        "bytes_per_s": 100.0,
        "seconds_left": 10.0,
        "stalled_s": 0.0,
        **changes,
    }
    return Progress(**figures)  # type: ignore[arg-type]


def test_a_move_is_a_bar_its_bytes_and_each_new_replicas_offset() -> None:
    one = MoveProgress(MOVE, (Copy(3, 250, 1_000, 300, 1_234, in_sync=False),))
    assert move_line(one) == "t-0 ███░░░░░░░░░   250 B of    1 kB  3 at 300 of 1,234"
    assert move_line(one, 5).startswith("t-0   ███")
    assert move_line(HALF) == "t-0 ██████░░░░░░    1 kB of    2 kB  4 in sync, 3 at 0 of 1,234"


def test_a_move_of_nothing_is_whole() -> None:
    assert "░" not in move_line(MoveProgress(MOVE, ()))


def test_all_moves_are_one_line() -> None:
    assert summary_line(progress()) == "1 of 2 moves done, 1 kB of 2 kB, 100 B/s, 10 s left"
    first = progress(bytes_per_s=None, seconds_left=None)
    assert summary_line(first) == "1 of 2 moves done, 1 kB of 2 kB"
    stalled = progress(bytes_per_s=0.0, seconds_left=None, stalled_s=20.0)
    assert summary_line(stalled).endswith("nothing has moved for 20 s: see `hightide cluster health`")


def test_programs_get_every_figure() -> None:
    document = progress_document(progress())
    assert document["moves_done"] == 1
    assert document["seconds_left"] == 10.0
    assert document["moves"] == [
        {
            "topic": "t",
            "partition": 0,
            "from": (1, 2),
            "to": (3, 4),
            "bytes_done": 1_000,
            "bytes_total": 2_000,
            "copies": [
                {
                    "broker": 3,
                    "bytes_done": 0,
                    "bytes_total": 1_000,
                    "offset": 0,
                    "end_offset": 1_234,
                    "in_sync": False,
                },
                {
                    "broker": 4,
                    "bytes_done": 1_000,
                    "bytes_total": 1_000,
                    "offset": 9,
                    "end_offset": 9,
                    "in_sync": True,
                },
            ],
        }
    ]


@pytest.mark.parametrize("were_begun", [True, False])
def test_where_nobody_can_be_asked_moves_that_were_begun_are_said_to_go_on(
    capsys: pytest.CaptureFixture[str], were_begun: bool
) -> None:
    only = {MOVE.partition: MOVE.target} if were_begun else None
    with Admin("127.0.0.1:1", timeout_ms=200) as admin, pytest.raises(BrokersUnavailableError):
        watch_moves(click.Context(cli, obj=Choices()), admin, 1.0, only=only)
    assert ("the moves go on; `hightide reassign watch`" in capsys.readouterr().err) is were_begun
