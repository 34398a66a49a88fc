"""Which files of TLS a client uses: its arguments, else the environment, and all of them or none."""

from pathlib import Path
from typing import Any

import pytest
from hightide.calls.tls_files import TlsFiles, chosen_tls_files
from hightide.errors import InvalidArgumentError

VARIABLES = ("HIGHTIDE_TLS_CA", "HIGHTIDE_TLS_CERTIFICATE", "HIGHTIDE_TLS_KEY")


@pytest.fixture(autouse=True)
def _empty_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in VARIABLES:
        monkeypatch.delenv(each, raising=False)


def test_plaintext_is_the_default() -> None:
    assert chosen_tls_files(None, None, None) is None


def test_a_path_is_text_or_a_path_object() -> None:
    files = chosen_tls_files("ca.crt", Path("alice.crt"), Path("alice.key"))
    assert files == TlsFiles("ca.crt", "alice.crt", "alice.key")


def test_a_ca_alone_is_tls_without_a_certificate_of_the_client() -> None:
    assert chosen_tls_files("ca.crt", None, None) == TlsFiles("ca.crt")


def test_without_arguments_the_environment_says(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in zip(VARIABLES, ("ca.crt", "alice.crt", "alice.key"), strict=True):
        monkeypatch.setenv(name, path)
    assert chosen_tls_files(None, None, None) == TlsFiles("ca.crt", "alice.crt", "alice.key")


def test_an_empty_variable_says_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in VARIABLES:
        monkeypatch.setenv(name, "")
    assert chosen_tls_files(None, None, None) is None


def test_an_argument_leaves_the_whole_environment_out(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, path in zip(VARIABLES, ("other.crt", "alice.crt", "alice.key"), strict=True):
        monkeypatch.setenv(name, path)
    assert chosen_tls_files("ca.crt", None, None) == TlsFiles("ca.crt")


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ((None, "alice.crt", None), "tls_certificate is given without tls_key"),
        (("ca.crt", "alice.crt", None), "tls_certificate is given without tls_key"),
        (("ca.crt", None, "alice.key"), "tls_key is given without tls_certificate"),
        ((None, "alice.crt", "alice.key"), "tls_certificate is given without tls_ca"),
    ],
)
def test_what_is_missing_is_named(given: tuple[str | None, ...], missing: str) -> None:
    with pytest.raises(InvalidArgumentError, match=missing):
        chosen_tls_files(*given)


def test_what_is_missing_in_the_environment_is_named_as_its_variable(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHTIDE_TLS_CERTIFICATE", "alice.crt")
    with pytest.raises(
        InvalidArgumentError, match="HIGHTIDE_TLS_CERTIFICATE is given without HIGHTIDE_TLS_KEY"
    ):
        chosen_tls_files(None, None, None)


@pytest.mark.parametrize("path", ["", b"ca.crt", 7, True])
def test_what_is_no_path_is_refused(path: Any) -> None:
    with pytest.raises(InvalidArgumentError, match="tls_ca is the path of a file"):
        chosen_tls_files(path, None, None)
