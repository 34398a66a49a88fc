"""Subscriptions by pattern: RE2, on whole names, in linear time."""

from __future__ import annotations

import time

import pytest
from hightide_coordinator.core.state.patterns import InvalidPattern, compile_pattern


def test_a_pattern_matches_whole_names() -> None:
    pattern = compile_pattern("flights-.*|weather")
    assert pattern.matching(["flights-nyc", "my-flights-nyc", "weather", "weather-2", "flights"]) == {
        "flights-nyc",
        "weather",
    }


@pytest.mark.parametrize("name", ["", ".", "..", "a/b", "../..", "a\nb", "\u00e9", "a" * 250, "a\x00"])
def test_a_pattern_never_matches_what_no_topic_may_be_called(name: str) -> None:
    assert not compile_pattern("(?s).*").matches(name)


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
        compile_pattern(pattern)
    assert reason in refused.value.reason
    assert len(str(refused.value)) < 400


def test_a_pattern_that_would_take_others_for_ever_takes_linear_time() -> None:
    pattern = compile_pattern("(a*)*(a|a)*(a|aa)+$")
    began = time.thread_time()
    assert not pattern.matches("a" * 248 + "b")
    assert time.thread_time() - began < 1
