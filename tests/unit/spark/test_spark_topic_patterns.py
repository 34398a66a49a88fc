"""Patterns of reads are those of consumer groups: RE2 expressions for the whole name of a topic."""

import pytest
from hightide_coordinator.core.state.patterns import InvalidPattern, compile_pattern
from hightide_coordinator.core.values.registration import TopicFilter
from hightide_spark.core.topic_pattern import checked_pattern, matches

TOPICS = ["flights", "flights-2013", "old-flights", "Flights", "f", "a.b", "a-b", "a)b"]
PATTERNS = [
    *("flights", "flights.*", "flights|f", "^flights$", "(?i)FLIGHTS", r"a\.b", "a.b", "[a-f].*", r"\w+"),
    *(r"flights-\d{4}", "(flights)(-2013)?", "f{1,3}", r"\pL+", r"\Qa.b\E", "(?P<name>f).*", ".*"),
]
REFUSED = [
    *("", "(", "a)(b", "[", "*", "a**", "(?!old).*", "(?=f).*", "(?<=f)l", "(?<!f)l", r"(a)\1", "a{2000}"),
    *("(?>a)", "a++", r"\Z", "(?#comment)a", "x" * 1001),
]


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_finds_the_topics_that_a_group_finds(pattern: str) -> None:
    group = compile_pattern(TopicFilter(pattern))
    legal = [topic for topic in TOPICS if topic != "a)b"]
    assert [matches(checked_pattern(pattern), topic) for topic in legal] == [
        group.matches(topic) for topic in legal
    ]


@pytest.mark.parametrize("pattern", REFUSED)
def test_a_pattern_that_a_group_refuses_is_refused(pattern: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(TopicFilter(pattern))
    with pytest.raises(ValueError, match=r"RE2|empty|characters"):
        checked_pattern(pattern)


def test_who_looks_ahead_learns_what_to_do_instead() -> None:
    with pytest.raises(ValueError, match="name the topics in subscribe, or filter by column topic"):
        checked_pattern("(?!old-).*")
