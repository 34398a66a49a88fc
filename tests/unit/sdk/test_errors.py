"""The errors of the SDK stand for all that servers can say, and tell what to do."""

import pickle
from inspect import signature
from typing import Any

import pytest
from hightide import errors
from hightide.errors import (
    CATALOGUE,
    DeliveryPendingError,
    HightideError,
    InvalidArgumentError,
    NotLeaderError,
    TlsFault,
    UnknownServerError,
    from_code,
    from_reason,
)
from hightide.v1.errors_pb2 import ErrorCode
from hypothesis import given, settings
from hypothesis import strategies as st

CODES = {name: number for name, number in ErrorCode.items() if number}


def test_every_code_has_one_class_of_its_own() -> None:
    assert set(CATALOGUE) == set(CODES.values())
    assert len(set(CATALOGUE.values())) == len(CODES)


@pytest.mark.parametrize("name", CODES)
def test_a_class_is_named_by_its_code_and_says_what_it_means(name: str) -> None:
    cls = CATALOGUE[CODES[name]]
    assert cls.__name__ == name.removeprefix("ERROR_CODE_").title().replace("_", "") + "Error"
    assert cls.__doc__
    assert getattr(errors, cls.__name__) is cls


@pytest.mark.parametrize("name", CODES)
def test_a_reason_and_a_code_give_the_same_error(name: str) -> None:
    by_code = from_code(CODES[name], "said so", topic="t", partition=3, address="h:1")
    by_reason = from_reason(
        name.removeprefix("ERROR_CODE_"), "said so", address="h:1", metadata={"topic": "t", "partition": "3"}
    )
    assert type(by_code) is type(by_reason)
    assert str(by_code) == str(by_reason)
    assert all(part in str(by_code) for part in ("said so", "topic t", "partition 3", "at h:1"))


def test_an_unknown_reason_is_kept_and_not_guessed_at() -> None:
    error = from_reason("FROM_THE_FUTURE", "who knows")
    assert type(error) is UnknownServerError
    assert "FROM_THE_FUTURE" in str(error)
    assert not error.retriable


def test_an_unknown_code_is_kept_and_not_guessed_at() -> None:
    assert "9999" in str(from_code(9999, "who knows"))


def test_a_message_does_not_say_things_twice() -> None:
    error = NotLeaderError("topic t partition 3 moved", topic="t", partition=3)
    assert str(error).count("topic t") == 1
    assert str(error).count("partition 3") == 1
    dashed = NotLeaderError("t-3 moved", topic="t", partition=3, address="h:1")
    assert str(dashed) == "t-3 moved (at h:1)"
    quoted = NotLeaderError("topic 't' has 3 partitions, not partition 3", topic="t", partition=3)
    assert str(quoted) == "topic 't' has 3 partitions, not partition 3"


def test_errors_are_also_what_python_calls_them() -> None:
    assert issubclass(InvalidArgumentError, ValueError)
    assert issubclass(DeliveryPendingError, TimeoutError)
    assert str(DeliveryPendingError("not yet", topic="t", partition=1)) == "not yet (topic t, partition 1)"


def test_all_errors_have_one_root() -> None:
    classes = [
        each for each in vars(errors).values() if isinstance(each, type) and issubclass(each, Exception)
    ]
    assert all(issubclass(each, HightideError) for each in classes)


def every_class(root: type[HightideError] = HightideError) -> list[type[HightideError]]:
    return [root, *(each for cls in root.__subclasses__() for each in every_class(cls))]


def made(cls: type[HightideError], message: str, fields: dict[str, Any]) -> HightideError:
    given = {
        "addresses": ("h:1", "h:2"),
        "maybe_appended": True,
        "undelivered_count": 3,
        "fault": TlsFault.SERVER_CERTIFICATE,
        "has_been_reached": True,
        **fields,
    }
    return cls(message, **{name: given[name] for name in signature(cls).parameters if name in given})


@settings(max_examples=25)
@given(
    st.text(),
    st.fixed_dictionaries(
        {
            "topic": st.text(),
            "partition": st.integers(0, 1 << 31),
            "address": st.none() | st.text(),
            "metadata": st.dictionaries(st.text(), st.text()),
        }
    ),
)
def test_every_error_is_the_same_after_it_went_to_another_process(
    message: str, fields: dict[str, Any]
) -> None:
    for cls in every_class():
        error = made(cls, message, fields)
        again = pickle.loads(pickle.dumps(error))
        assert type(again) is cls
        assert (str(again), repr(again), vars(again)) == (str(error), repr(error), vars(error))
