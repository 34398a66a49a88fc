"""Lists of brokers as users write them."""

import click
import pytest
from hightide_cli.command_line.broker_lists import parse_assignment, parse_brokers


def test_brokers_are_separated_by_commas_and_partitions_by_colons() -> None:
    assert parse_brokers("4, 5,6", "--replicas") == (4, 5, 6)
    assert parse_assignment("1,2,3:2,3,1") == [(1, 2, 3), (2, 3, 1)]
    assert parse_assignment("1,2;2,1") == [(1, 2), (2, 1)]
    assert parse_assignment("7") == [(7,)]


@pytest.mark.parametrize("text", ["", "1,", "a", "1 2", "-1", "1.5", "²"])
def test_what_is_no_list_of_brokers_is_told(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not a list of broker ids"):
        parse_brokers(text, "--replicas")
    with pytest.raises(click.BadParameter, match="is not like 1,2,3:2,3,1"):
        parse_assignment(f"1,2:{text}")
