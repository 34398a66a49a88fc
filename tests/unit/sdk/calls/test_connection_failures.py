"""Of what gRPC says of a connection, people are told the reason, and each address once."""

import pytest
from hightide.calls.connection_failures import connection_failure
from hightide.cluster.metadata import ClusterMetadata, brokers_unavailable
from hightide.errors import (
    AddressUnreachableError,
    InvalidTopicNameError,
    OverloadedError,
    UnknownGroupError,
    UnknownTopicError,
)

REFUSED = (
    "failed to connect to all addresses; last error: UNKNOWN: ipv4:127.0.0.1:1: Failed to connect to remote "
    "host: connect: Connection refused (111)"
)
UNKNOWN_NAME = (
    "DNS resolution failed for nosuch.invalid:9092: C-ares status is not ARES_SUCCESS qtype=A "
    "name=nosuch.invalid is_balancer=0: Domain name not found"
)


@pytest.mark.parametrize(
    ("details", "address", "reason"),
    [
        (REFUSED, "127.0.0.1:1", "Connection refused (111)"),
        (REFUSED, "localhost:1", "Connection refused (111), at 127.0.0.1:1"),
        (REFUSED.replace("ipv4:127.0.0.1", "ipv6:%5B::1%5D"), "[::1]:1", "Connection refused (111)"),
        (UNKNOWN_NAME, "nosuch.invalid:9092", "its name cannot be resolved (Domain name not found)"),
        ("Socket closed", "b1:1", "Socket closed"),
        ("something new: of gRPC", "b1:1", "something new: of gRPC"),
        ("", "b1:1", "gRPC gives no reason"),
    ],
)
def test_the_reason_is_what_is_left_without_what_the_reader_knows(
    details: str, address: str, reason: str
) -> None:
    assert connection_failure(details, address) == reason


def test_each_address_that_was_tried_is_named_once() -> None:
    failures = {
        "b1:1": AddressUnreachableError("b1:1 cannot be reached: Connection refused", address="b1:1"),
        "b2:1": OverloadedError("too many calls", address="b2:1"),
    }
    told = str(brokers_unavailable(ClusterMetadata(("b1:1",)), failures, 10_000))
    assert told.startswith(
        "no broker answered within 10 s: b1:1 (bootstrap) cannot be reached: Connection refused; "
        "b2:1 (advertised by a broker): too many calls. Check"
    )


def test_an_address_that_the_message_names_is_not_named_again() -> None:
    assert str(AddressUnreachableError("b1:1 is away", address="b1:1")) == "b1:1 is away"
    assert str(AddressUnreachableError("b1:19 is away", address="b1:1")) == "b1:19 is away (at b1:1)"
    assert str(AddressUnreachableError("web1:1 is away", address="b1:1")) == "web1:1 is away (at b1:1)"


def test_a_next_step_that_the_message_says_is_not_said_again() -> None:
    assert str(OverloadedError("10 calls; try again later")) == "10 calls; try again later"
    assert str(OverloadedError("10 calls")) == "10 calls. Try again after a pause."
    said = "there is none; `hightide group ls` shows those that there are"
    assert str(UnknownGroupError(said)) == said
    # One of its two commands is not all of the next step.
    said = "`hightide topic ls` does not list it"
    assert str(UnknownTopicError(said)).endswith("`hightide topic create` makes one.")
    assert str(InvalidTopicNameError("'..' is no name")).count("name") == 2
