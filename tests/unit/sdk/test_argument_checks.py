"""What users give is checked where they give it."""

from datetime import datetime
from typing import Any

import pytest
from hightide import Consumer, Producer
from hightide.calls.addresses import bootstrap_addresses
from hightide.cluster.offset_at import offset_at, offset_at_time
from hightide.consumer_group.settings import topic_streams
from hightide.errors import (
    BrokersUnavailableError,
    ClosedError,
    InvalidArgumentError,
    UndeliveredError,
)
from hightide.moments import checked_microseconds, moment_at
from hightide.producing.partitioner import partition_for_key
from hightide.producing.record_checks import as_bytes, checked_headers
from hightide.records import TopicPartition


def test_bootstrap_is_the_argument_then_the_environment_then_localhost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("HIGHTIDE_BOOTSTRAP", raising=False)
    assert bootstrap_addresses(None) == ("127.0.0.1:9092",)
    monkeypatch.setenv("HIGHTIDE_BOOTSTRAP", "a:1, b:2")
    assert bootstrap_addresses(None) == ("a:1", "b:2")
    assert bootstrap_addresses(["c:3", "c:3", "[::1]:4"]) == ("c:3", "[::1]:4")


@pytest.mark.parametrize("bad", ["localhost", "h:", "h:0", "h:x", "h:70000", "", ":1"])
def test_an_address_that_is_none_is_refused(bad: str) -> None:
    with pytest.raises(InvalidArgumentError, match="address"):
        bootstrap_addresses([bad])


@pytest.mark.parametrize(
    "settings",
    [
        {"acks": 2},
        {"compression": "gzip"},
        {"linger_ms": -1},
        {"batch_bytes_max": 10},
        {"buffer_memory_bytes": 1_000},
        {"delivery_timeout_ms": 0},
    ],
)
def test_a_producer_names_the_setting_that_cannot_be_used(settings: dict[str, object]) -> None:
    (name,) = settings
    with pytest.raises(InvalidArgumentError, match=name):
        Producer("h:1", **settings)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "settings", [{"offset_reset": "none"}, {"fetch_max_bytes": 0}, {"fetch_max_wait_ms": -1}]
)
def test_a_consumer_names_the_setting_that_cannot_be_used(settings: dict[str, object]) -> None:
    (name,) = settings
    with pytest.raises(InvalidArgumentError, match=name):
        Consumer("h:1", **settings)  # type: ignore[arg-type]


def test_text_is_not_encoded_silently() -> None:
    with pytest.raises(InvalidArgumentError, match="encode"):
        as_bytes("value", "text")
    assert as_bytes("key", bytearray(b"k")) == b"k"


@pytest.mark.parametrize("bad", [-1, 2**62, "now"])
def test_a_timestamp_that_no_batch_can_hold_is_refused(bad: int) -> None:
    with pytest.raises(InvalidArgumentError, match="timestamp_us"):
        checked_microseconds("timestamp_us", bad)


@pytest.mark.parametrize("bad", [[("a", "b")], [(b"a", b"b")], [("a", b"b", 1)]])
def test_headers_are_pairs_of_text_and_bytes(bad: list[tuple[str, bytes]]) -> None:
    with pytest.raises(InvalidArgumentError, match="header"):
        checked_headers(bad)


def test_headers_are_those_of_the_time_of_sending() -> None:
    header: list[Any] = ["name", b"value"]
    headers = [header]
    checked = checked_headers(headers)  # type: ignore[arg-type]
    header[:] = [1, 2, 3]
    headers.clear()
    assert checked == (("name", b"value"),)
    assert checked_headers(each for each in checked) == checked  # type: ignore[arg-type]


@pytest.mark.parametrize("bad", ["\ud800", b"name", 5, None])
def test_a_name_is_text_that_can_be_sent(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="name of a topic is text"):
        topic_streams([bad])
    with pytest.raises(InvalidArgumentError, match="name of a topic is text"):
        topic_streams({bad: 2})
    with pytest.raises(InvalidArgumentError, match="header"):
        checked_headers([(bad, b"value")])


@pytest.mark.parametrize("bad", ["tomorrow", -1, 1.7e9, True, datetime(2026, 1, 1)])
def test_an_offset_is_named_or_a_time(bad: Any) -> None:
    with pytest.raises(InvalidArgumentError):
        offset_at(bad)


@pytest.mark.parametrize(
    ("number", "unit"), [(1_700_000_000_000, "milliseconds"), (1_700_000_000, "seconds")]
)
def test_a_time_in_another_unit_is_refused_with_what_it_would_be(number: int, unit: str) -> None:
    """Milliseconds, as Kafka's clients take them, were read as a time in January 1970: all records."""
    with pytest.raises(
        InvalidArgumentError, match=f"1970-01-.* in microseconds, and 2023-11-14 22:13 in {unit}; for the"
    ) as caught:
        offset_at_time(number)
    assert str(caught.value).endswith(" 1700000000000000")


def test_a_record_of_another_unit_is_refused_before_it_is_sent() -> None:
    """It was a record of January 1970, which retention deletes at once."""
    with (
        Producer("127.0.0.1:1") as producer,
        pytest.raises(InvalidArgumentError, match="timestamp_us 1700000000000 is 1970"),
    ):
        producer.send("flights", b"value", timestamp_us=1_700_000_000_000)


def test_nanoseconds_are_refused_too() -> None:
    """They were a time of the year 58,000, before which all records are."""
    with pytest.raises(InvalidArgumentError, match="after the year 9999") as caught:
        offset_at_time(1_700_000_000_000_000_123)
    assert str(caught.value).endswith(" nanoseconds, pass 1700000000000000")


@pytest.mark.parametrize("timestamp_us", [0, 7, 1_000_070, 10**13, 1_700_000_000_123_457, 10**15])
def test_microseconds_are_taken_as_ever_and_are_the_time_of_that_moment(timestamp_us: int) -> None:
    assert offset_at_time(timestamp_us).timestamp_us == timestamp_us
    assert offset_at_time(moment_at(timestamp_us)).timestamp_us == timestamp_us


def test_a_time_long_after_us_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match="after the year 9999"):
        moment_at(10**18)


def test_keys_go_where_other_clients_send_them() -> None:
    # The check value of CRC-32C is the one for these nine digits.
    assert [partition_for_key(key, 6) for key in (b"", b"123456789")] == [0, 0xE3069283 % 6]


@pytest.mark.parametrize("beyond", [-1, 2**63])
def test_nobody_seeks_to_what_is_no_offset(beyond: int) -> None:
    """A larger number than a request can carry was taken, and its fetch was never sent: a bare ValueError."""
    place = TopicPartition("t", 0)
    with Consumer("127.0.0.1:1") as consumer:
        consumer.assign([place])
        with pytest.raises(InvalidArgumentError, match=f"{beyond} is no offset of t-0"):
            consumer.seek(place, beyond)


def test_a_cluster_that_is_not_there_is_told_with_its_address() -> None:
    with Producer("127.0.0.1:1", max_block_ms=200) as producer:
        with pytest.raises(BrokersUnavailableError, match=r"127\.0\.0\.1:1") as caught:
            producer.send("t", b"v")
        assert caught.value.addresses == ("127.0.0.1:1",)


def test_send_waits_no_longer_for_a_cluster_than_a_record_may_take() -> None:
    """It waited for max_block_ms, a minute, whatever the delivery timeout was."""
    with (
        Producer("127.0.0.1:1", delivery_timeout_ms=200) as producer,
        pytest.raises(BrokersUnavailableError, match=r"within 0\.2 s: 127\.0\.0\.1:1"),
    ):
        producer.send_and_wait("t", b"v")


def test_a_consumer_tells_it_too_and_never_says_nothing() -> None:
    with (
        Consumer("127.0.0.1:1", topics="t", unavailable_timeout_ms=200) as consumer,
        pytest.raises(BrokersUnavailableError, match=r"127\.0\.0\.1:1"),
    ):
        consumer.poll(timeout_s=30)


def test_what_is_closed_says_so() -> None:
    producer, consumer = Producer("h:1"), Consumer("h:1", topics="t")
    for each in (producer, consumer):
        each.close()
        each.close()
    with pytest.raises(ClosedError):
        producer.send("t", b"v")
    with pytest.raises(ClosedError):
        consumer.poll()


def test_nothing_assigned_is_told() -> None:
    with Consumer("127.0.0.1:1") as consumer, pytest.raises(InvalidArgumentError, match="assign"):
        consumer.poll()


def test_partitions_sort_and_print() -> None:
    assert sorted([TopicPartition("b", 0), TopicPartition("a", 2)])[0] == TopicPartition("a", 2)
    assert str(TopicPartition("a", 2)) == "a-2"


def test_undelivered_has_its_count() -> None:
    assert UndeliveredError("left", undelivered_count=3).undelivered_count == 3
