"""A plan goes into a file and comes back; what is no plan is told by file, place and value."""

import json
from pathlib import Path

import pytest
from hightide_cli.reassign.plan import Place, plan_by_hand
from hightide_cli.reassign.plan_file import PlanFileError, PlannedMove, read_plan, write_plan


def test_a_plan_that_is_written_is_read_back(tmp_path: Path) -> None:
    plan = plan_by_hand(
        [Place("t", 0, (1, 2), 1, 8), Place("t", 1, (2, 1), 2, 8)], {("t", 0): (1, 3), ("t", 1): (2, 1)}
    )
    write_plan(tmp_path / "plan.json", plan)
    assert read_plan(tmp_path / "plan.json") == [PlannedMove("t", 0, (1, 3), (1, 2))]
    document = json.loads((tmp_path / "plan.json").read_text())
    assert document["bytes_to_move"] == 8
    assert document["brokers"][0] == {
        "broker": 1,
        "replicas": {"from": 2, "to": 2},
        "preferred_leaders": {"from": 1, "to": 1},
        "bytes_to_receive": 0,
        "bytes_to_send": 8,
    }


def test_a_file_of_kafkas_tools_is_a_plan(tmp_path: Path) -> None:
    path = tmp_path / "kafka.json"
    path.write_text(
        '{"version":1,"partitions":[{"topic":"t","partition":3,"replicas":[4,5],"log_dirs":["any","any"]}]}'
    )
    assert read_plan(path) == [PlannedMove("t", 3, (4, 5), None)]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        ("{", "is no JSON"),
        ("[]", 'no list "partitions"'),
        ('{"version": 2, "partitions": []}', "of version 2"),
        ('{"partitions": [7]}', r"partitions\[0\] is 7"),
        ('{"partitions": [{"partition": 0, "replicas": [1]}]}', "topic is None"),
        ('{"partitions": [{"topic": "t", "partition": -1, "replicas": [1]}]}', "partition is -1"),
        ('{"partitions": [{"topic": "t", "partition": true, "replicas": [1]}]}', "partition is True"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": []}]}', r"replicas is \[\]"),
        ('{"partitions": [{"topic": "t", "partition": 0, "replicas": ["1"]}]}', r"replicas is \['1'\]"),
        (
            '{"partitions": [{"topic": "t", "partition": 0, "replicas": [1]},'
            ' {"topic": "t", "partition": 0, "replicas": [2]}]}',
            "names t-0 twice",
        ),
    ],
)
def test_what_is_no_plan_is_told(tmp_path: Path, content: str, said: str) -> None:
    path = tmp_path / "plan.json"
    path.write_text(content)
    with pytest.raises(PlanFileError, match=said) as caught:
        read_plan(path)
    assert str(path) in str(caught.value)
