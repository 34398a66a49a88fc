"""Offsets that are to be committed, as users write them."""

import click
import pytest
from hightide import TopicPartition
from hightide_cli.group.offsets import parse_places


def test_each_place_has_a_topic_a_partition_and_an_offset() -> None:
    assert parse_places(["flights:0=100", "a.b-c:12=0"]) == {
        TopicPartition("flights", 0): 100,
        TopicPartition("a.b-c", 12): 0,
    }


@pytest.mark.parametrize(
    "text", ["flights", "flights:0", "flights=3", ":0=3", "flights:x=3", "flights:0=-3", "flights:0="]
)
def test_what_lacks_one_of_them_is_refused(text: str) -> None:
    with pytest.raises(click.BadParameter, match="is not TOPIC:PARTITION=OFFSET"):
        parse_places([text])


def test_a_place_that_is_given_twice_is_refused() -> None:
    with pytest.raises(click.BadParameter, match="given twice"):
        parse_places(["t:0=1", "t:0=2"])
