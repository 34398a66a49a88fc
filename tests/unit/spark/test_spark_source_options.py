"""The options of reads: what is refused and how, and what the others mean."""

from typing import Any

import pytest
from hightide.records import TopicPartition
from hightide_spark.core.source_options import (
    Subscription,
    batch_options,
    includes_headers,
    stream_options,
)
from hightide_spark.core.start_and_end import AtOffsets, AtTimes, Everywhere
from hightide_spark.errors import (
    ContradictingOptionsError,
    InvalidOptionError,
    MissingOptionError,
    OptionError,
    UnknownOptionError,
)

HERE = {"bootstrap.servers": "broker:9092", "subscribe": "flights"}
FLIGHTS_0, FLIGHTS_1 = TopicPartition("flights", 0), TopicPartition("flights", 1)

# What is given beside HERE, the error, and what its message must hold. None takes an option away.
REFUSED_IN_BOTH: list[tuple[dict[str, str | None], type[OptionError], str]] = [
    ({"bootstrap.servers": None}, MissingOptionError, '"bootstrap.servers"'),
    ({"subscribe": None}, MissingOptionError, "subscribe, subscribePattern, assign"),
    ({"subscribePattern": "f.*"}, ContradictingOptionsError, "subscribe and subscribePattern"),
    ({"startingOffset": "earliest"}, UnknownOptionError, "did you mean 'startingOffsets'?"),
    ({"kafka.bootstrap.server": "x"}, UnknownOptionError, "did you mean 'bootstrap.servers'?"),
    ({"kafka.bootstrap.servers": "x:1"}, InvalidOptionError, "given twice"),
    ({"wholly.different": "1"}, UnknownOptionError, "there are assign, bootstrap.servers,"),
    ({"topic": "t"}, UnknownOptionError, "subscribe"),
    ({"subscribe": "flights,"}, InvalidOptionError, "'' is no topic name"),
    ({"subscribe": "a b"}, InvalidOptionError, "'a b' is no topic name"),
    ({"subscribe": None, "subscribePattern": "("}, InvalidOptionError, "is no RE2 expression (missing )"),
    ({"subscribe": None, "assign": "flights"}, InvalidOptionError, '{"flights":[0,1]}'),
    ({"subscribe": None, "assign": '{"flights":[]}'}, InvalidOptionError, '{"flights":[0,1]}'),
    ({"subscribe": None, "assign": '{"flights":[-1]}'}, InvalidOptionError, "-1 is no partition"),
    ({"startingOffsets": "now"}, InvalidOptionError, "earliest, latest, or an offset for each"),
    ({"startingOffsets": '{"flights":{"0":-3}}'}, InvalidOptionError, "flights-0 it says -3"),
    ({"startingOffsets": '{"flights":{"0":true}}'}, InvalidOptionError, "flights-0 it says True"),
    ({"startingOffsets": '{"flights":{"x":1}}'}, InvalidOptionError, "'x' is no partition"),
    ({"startingOffsets": "[" * 200_000}, InvalidOptionError, "earliest, latest, or an offset for each"),
    ({"startingOffsets": '{"flights":{"0":5,"00":7}}'}, InvalidOptionError, "flights-0 twice"),
    ({"startingOffsets": '{"flights":{"0":5,"0":7}}'}, InvalidOptionError, "'0' twice"),
    ({"subscribe": None, "assign": '{"a":[0],"a":[1]}'}, InvalidOptionError, "'a' twice"),
    ({"startingOffsetsByTimestamp": "earliest"}, InvalidOptionError, "milliseconds"),
    ({"startingTimestamp": "2020-01-01"}, InvalidOptionError, "whole number from 0 to"),
    (
        {"startingTimestamp": "1700000000"},
        InvalidOptionError,
        "if 1700000000 are seconds, write 1700000000000",
    ),
    (
        {"startingOffsetsByTimestamp": '{"flights":{"0":1700000000}}'},
        InvalidOptionError,
        "times are in milliseconds",
    ),
    ({"startingOffsetsByTimestampStrategy": "guess"}, InvalidOptionError, "error or latest"),
    ({"failOnDataLoss": "no"}, InvalidOptionError, "true or false"),
    ({"includeHeaders": "1"}, InvalidOptionError, "true or false"),
    ({"minPartitions": "0"}, InvalidOptionError, "from 1 to 100000"),
    ({"maxRecordsPerPartition": "1e6"}, InvalidOptionError, "whole number from 1"),
]
REFUSED_IN_BATCHES: list[tuple[dict[str, str | None], type[OptionError], str]] = [
    ({"startingOffsets": "latest"}, InvalidOptionError, "cannot start at the latest"),
    ({"startingOffsets": '{"flights":{"0":-1}}'}, InvalidOptionError, "says -1 of flights-0"),
    ({"endingOffsets": "earliest"}, InvalidOptionError, "cannot end at the earliest"),
    ({"endingOffsets": '{"flights":{"0":-2}}'}, InvalidOptionError, "says -2 of flights-0"),
    ({"maxOffsetsPerTrigger": "5"}, UnknownOptionError, "it is for streams"),
    ({"groupId": "g"}, UnknownOptionError, "it is for streams"),
    (
        {"startingOffsets": '{"flights":{"0":9}}', "endingOffsets": '{"flights":{"0":8}}'},
        ContradictingOptionsError,
        "flights-0 starts at startingOffsets behind its end at endingOffsets",
    ),
    ({"startingTimestamp": "9", "endingTimestamp": "8"}, ContradictingOptionsError, "every partition"),
]
REFUSED_IN_STREAMS: list[tuple[dict[str, str | None], type[OptionError], str]] = [
    ({"endingOffsets": "latest"}, UnknownOptionError, "a stream has no end"),
    ({"endingTimestamp": "1"}, UnknownOptionError, "a stream has no end"),
    ({"pushdown": "true"}, UnknownOptionError, "into streams"),
    ({"maxOffsetsPerTrigger": "0"}, InvalidOptionError, "from 1"),
    ({"maxTriggerDelay": "15 parsecs"}, InvalidOptionError, "500ms, 30s, 15m or 2h"),
    (
        {"maxOffsetsPerTrigger": "5", "minOffsetsPerTrigger": "6"},
        ContradictingOptionsError,
        "minOffsetsPerTrigger is 6, which is more than maxOffsetsPerTrigger, 5",
    ),
]


def given(changes: dict[str, str | None]) -> dict[str, str]:
    """As Spark gives them: with names in lower case."""
    return {name.lower(): value for name, value in (HERE | changes).items() if value is not None}


@pytest.mark.parametrize(("changes", "kind", "says"), REFUSED_IN_BOTH + REFUSED_IN_BATCHES)
def test_refused_in_a_batch(changes: dict[str, str | None], kind: type[OptionError], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        batch_options(given(changes))
    assert (type(raised.value), says in str(raised.value)) == (kind, True), str(raised.value)
    assert "\n" not in str(raised.value)


@pytest.mark.parametrize(("changes", "kind", "says"), REFUSED_IN_BOTH + REFUSED_IN_STREAMS)
def test_refused_in_a_stream(changes: dict[str, str | None], kind: type[OptionError], says: str) -> None:
    with pytest.raises(OptionError) as raised:
        stream_options(given(changes))
    assert (type(raised.value), says in str(raised.value)) == (kind, True), str(raised.value)


@pytest.mark.parametrize(("changes", "kind", "says"), REFUSED_IN_BOTH)
def test_refused_when_it_is_loaded(
    changes: dict[str, str | None], kind: type[OptionError], says: str
) -> None:
    with pytest.raises(kind):
        includes_headers(given(changes))


def test_what_stands_where_nothing_is_said() -> None:
    batch, stream = batch_options(HERE), stream_options(HERE)
    assert (batch.read.start, batch.end) == (
        Everywhere("startingOffsets", "earliest"),
        Everywhere("endingOffsets", "latest"),
    )
    assert stream.read.start == Everywhere("startingOffsets", "latest")
    assert (batch.read.fail_on_data_loss, batch.pushdown, includes_headers(HERE)) == (True, False, False)
    assert (stream.max_offsets_per_trigger, stream.max_trigger_delay_ms) == (None, 900_000)


@pytest.mark.parametrize(
    ("changes", "start"),
    [
        ({"startingOffsets": " EARLIEST "}, Everywhere("startingOffsets", "earliest")),
        (
            {"startingOffsets": '{"flights":{"0":23,"1":-1}}'},
            AtOffsets("startingOffsets", {FLIGHTS_0: 23, FLIGHTS_1: -1}),
        ),
        (
            {"startingOffsetsByTimestamp": '{"flights":{"0":7}}', "startingOffsets": "earliest"},
            AtTimes("startingOffsetsByTimestamp", {FLIGHTS_0: 7_000}),
        ),
        (
            {"startingTimestamp": "9", "startingOffsetsByTimestamp": '{"flights":{"0":7}}'},
            Everywhere("startingTimestamp", 9_000),
        ),
    ],
)
def test_a_timestamp_goes_before_timestamps_by_partition_before_offsets(
    changes: dict[str, str | None], start: Any
) -> None:
    assert stream_options(given(changes)).read.start == start


def test_a_start_by_timestamp_hides_a_start_that_a_batch_could_not_have() -> None:
    assert batch_options(
        given({"startingTimestamp": "5", "startingOffsets": "latest"})
    ).read.start == Everywhere("startingTimestamp", 5_000)


@pytest.mark.parametrize(
    ("text", "delay_ms"), [("500ms", 500), ("30s", 30_000), ("15m", 900_000), ("2h", 7_200_000), ("250", 250)]
)
def test_delays_are_said_as_in_settings_of_spark(text: str, delay_ms: int) -> None:
    assert stream_options(given({"maxTriggerDelay": text})).max_trigger_delay_ms == delay_ms


def test_which_partitions_are_meant() -> None:
    assert Subscription(topics=("a", "b")).selects("b", 7)
    assert not Subscription(topics=("a", "b")).selects("ab", 0)
    assert Subscription(assigned={"a": frozenset({1})}).selects("a", 1)
    assert not Subscription(assigned={"a": frozenset({1})}).selects("a", 0)
    pattern = Subscription(pattern="flights-.*")
    assert (pattern.selects("flights-2013", 0), pattern.selects("old-flights-1", 0)) == (True, False)
    assert pattern.names() is None
