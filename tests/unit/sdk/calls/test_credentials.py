"""What a client shows of itself: what it was given, else what the environment says."""

from pathlib import Path
from typing import Any

import pytest
from hightide.calls.credentials import Credentials, chosen_credentials
from hightide.calls.tls_files import TlsFiles
from hightide.errors import InvalidArgumentError


@pytest.fixture(autouse=True)
def _environment_of_another_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHTIDE_TLS_CA", "other.crt")
    monkeypatch.setenv("HIGHTIDE_TOKEN_FILE", "other.jwt")


def test_without_arguments_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    assert chosen_credentials() == Credentials(TlsFiles("other.crt"), token_file="other.jwt")
    monkeypatch.setenv("HIGHTIDE_TOKEN_FILE", "")
    assert chosen_credentials() == Credentials(TlsFiles("other.crt"))


def test_one_argument_leaves_the_whole_environment_out() -> None:
    """Else the token of one cluster would travel to another."""
    assert chosen_credentials("ca.crt") == Credentials(TlsFiles("ca.crt"))
    assert chosen_credentials(token="alice") == Credentials(token="alice")
    assert chosen_credentials(token_file=Path("alice.jwt")) == Credentials(token_file="alice.jwt")


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"token": "a", "token_file": "b"}, "token and token_file are given; give one of them"),
        ({"token": 7}, "token is a text, or a function that returns one"),
        ({"token": ""}, "token holds no token"),
        ({"token": "secret words"}, "token holds no token"),
        ({"token": "secret\n"}, "token holds no token"),
        ({"token": "gehe\u00efm"}, "token holds no token"),
        ({"token": "a" * 8193}, "token holds 8193 characters, and a token has at most 8192"),
        ({"token_file": ""}, "token_file is the path of a file"),
    ],
)
def test_what_is_no_token_is_refused_and_never_shown(given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidArgumentError) as refused:
        chosen_credentials(**given)
    assert why in str(refused.value)
    assert "secret" not in str(refused.value)
