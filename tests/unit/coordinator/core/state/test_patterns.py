"""Subscriptions by pattern: RE2, on whole names, in linear time."""

from __future__ import annotations

import time

import pytest
from hightide_coordinator.core.state.patterns import InvalidPattern, compile_pattern
from hightide_coordinator.core.values.registration import TopicFilter


def test_a_pattern_matches_whole_names() -> None:
    pattern = compile_pattern(TopicFilter("flights-.*|weather"))
    assert pattern.matching(["flights-nyc", "my-flights-nyc", "weather", "weather-2", "flights"]) == {
        "flights-nyc",
        "weather",
    }


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../..", "a\nb", "\u00e9", "a" * 250, "a\x00"])
def test_a_pattern_never_matches_what_no_topic_may_be_called(name: str) -> None:
    assert not compile_pattern(TopicFilter("(?s).*")).matches(name)


@pytest.mark.parametrize(
    ("pattern", "reason"),
    [
        ("", "empty"),
        ("a(", "missing )"),
        ("[a", "missing ]"),
        (r"(a)\1", "escape"),
        ("(?<=a)b", "operator"),
        ("a{1000}{1000}", "repetition"),
        ("((a{100}){100}){100}", "repetition"),
        ("a" * 1_001, "1001 characters, more than 1000"),
        ("\ud800", "Unicode"),
    ],
)
def test_a_pattern_that_does_not_compile_is_refused_with_the_reason(pattern: str, reason: str) -> None:
    with pytest.raises(InvalidPattern) as refused:
        compile_pattern(TopicFilter(pattern))
    assert reason in refused.value.reason
    assert len(str(refused.value)) < 400


def test_a_pattern_that_would_take_others_for_ever_takes_linear_time() -> None:
    pattern = compile_pattern(TopicFilter("(a*)*(a|a)*(a|aa)+$"))
    began = time.thread_time()
    assert not pattern.matches("a" * 248 + "b")
    assert time.thread_time() - began < 1


def test_an_exclusion_leaves_out_whole_names_that_the_pattern_matches() -> None:
    pattern = compile_pattern(TopicFilter("flights-.*", ("(?i)flights-TEST", ".*-old")))
    names = ["flights-nyc", "flights-test", "flights-test-2", "flights-old", "flights-old-nyc"]
    assert pattern.matching(names) == {"flights-nyc", "flights-test-2", "flights-old-nyc"}


@pytest.mark.parametrize("exclusion", ["", "a(", "a)|(b", "(?!a)"])
def test_each_exclusion_is_an_expression_of_its_own(exclusion: str) -> None:
    with pytest.raises(InvalidPattern):
        compile_pattern(TopicFilter(".*", ("fine", exclusion)))


def test_a_pattern_and_its_exclusions_are_bounded_together() -> None:
    compile_pattern(TopicFilter("a" * 500, ("b" * 250, "c" * 250)))
    with pytest.raises(InvalidPattern, match="with its exclusions 1001 characters, more than 1000"):
        compile_pattern(TopicFilter("a" * 500, ("b" * 250, "c" * 251)))
