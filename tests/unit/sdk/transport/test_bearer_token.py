"""The token of a client's calls: where it is from, when it is looked at again, and where it is not sent."""

import os
from pathlib import Path

import pytest
from hightide.calls.credentials import Credentials
from hightide.calls.tls_files import TlsFiles
from hightide.errors import InvalidArgumentError, TokenNotSentError
from hightide.transport.bearer_token import BearerToken
from token_issuer import TokenIssuer

TLS = TlsFiles("ca.crt")
ISSUER = TokenIssuer()


def sent(token: BearerToken, address: str = "b.example:1") -> str:
    ((key, value),) = token.metadata(address)
    assert key == "authorization"
    return value.removeprefix("Bearer ")


def replaced(path: Path, content: str) -> None:
    new = path.with_suffix(".new")
    new.write_text(content)
    new.replace(path)


def test_a_file_is_read_again_when_it_changes(tmp_path: Path) -> None:
    path = tmp_path / "alice.jwt"
    path.write_text("first\n")
    token = BearerToken(Credentials(TLS, token_file=str(path)))
    assert sent(token) == "first"
    replaced(path, "second")
    assert sent(token) == "second"


@pytest.mark.parametrize("content", ["", "two words", "a" * 8193, None])
def test_while_a_file_cannot_be_used_the_token_before_it_is(tmp_path: Path, content: str | None) -> None:
    path = tmp_path / "alice.jwt"
    path.write_text("first")
    token = BearerToken(Credentials(TLS, token_file=str(path)))
    if content is None:
        path.unlink()
    else:
        replaced(path, content)
    assert sent(token) == "first"
    replaced(path, "second")
    assert sent(token) == "second"


def test_a_client_does_not_begin_with_a_file_that_has_no_token(tmp_path: Path) -> None:
    path = tmp_path / "alice.jwt"
    with pytest.raises(InvalidArgumentError, match=r"alice\.jwt cannot be read: No such file"):
        BearerToken(Credentials(TLS, token_file=str(path)))
    path.write_text("secret words")
    with pytest.raises(InvalidArgumentError, match=r"alice\.jwt holds no token") as refused:
        BearerToken(Credentials(TLS, token_file=str(path)))
    assert "secret" not in str(refused.value)


def test_a_file_without_end_is_not_read_to_the_end() -> None:
    with pytest.raises(InvalidArgumentError, match="/dev/zero holds no token"):
        BearerToken(Credentials(TLS, token_file="/dev/zero"))


def test_a_function_is_called_again_when_four_fifths_of_the_life_of_its_token_are_over() -> None:
    now_s, calls = 1_000_000.0, 0

    def source() -> str:
        nonlocal calls
        calls += 1
        return ISSUER.token(f"c{calls}", exp=int(now_s) + 100)

    token = BearerToken(Credentials(TLS, source), lambda: now_s)
    assert calls == 0
    first = sent(token)
    now_s += 79
    assert sent(token) == first
    now_s += 1
    assert sent(token) != first
    assert calls == 2


def test_a_function_is_called_again_when_a_server_has_refused_its_token() -> None:
    tokens = iter([ISSUER.token("one"), ISSUER.token("two")])
    token = BearerToken(Credentials(TLS, lambda: next(tokens)))
    first = sent(token)
    assert sent(token) == first
    token.refused()
    assert sent(token) != first


@pytest.mark.parametrize("opaque", ["opaque", "a.b.c", "a.e30.c", "..", "a.bnVsbA.c", "a.W10.c"])
def test_a_token_that_does_not_say_when_it_expires_is_asked_for_each_time(opaque: str) -> None:
    tokens = iter([opaque, "next"])
    token = BearerToken(Credentials(TLS, lambda: next(tokens)))
    assert [sent(token), sent(token)] == [opaque, "next"]


@pytest.mark.parametrize("returned", [None, b"token", "", "two words"])
def test_a_function_that_has_no_token_fails_the_call(returned: object) -> None:
    token = BearerToken(Credentials(TLS, lambda: returned))  # type: ignore[arg-type, return-value]
    with pytest.raises(TokenNotSentError, match="the function that was given as token has failed"):
        sent(token)


def test_what_a_function_raises_is_the_reason() -> None:
    def source() -> str:
        raise OSError("the issuer is away")

    with pytest.raises(TokenNotSentError, match="the issuer is away") as failed:
        sent(BearerToken(Credentials(TLS, source)))
    assert isinstance(failed.value.__cause__, OSError)


@pytest.mark.parametrize("address", ["127.0.0.1:1", "127.9.8.7:1", "[::1]:1", "localhost:1"])
def test_on_loopback_a_token_is_sent_without_tls(address: str) -> None:
    assert sent(BearerToken(Credentials(None, "alice")), address) == "alice"


@pytest.mark.parametrize("address", ["b.example:1", "10.0.0.1:1", "localhost.example:1", "[2001:db8::1]:1"])
def test_elsewhere_it_is_not_and_the_function_is_not_called(address: str) -> None:
    def source() -> str:
        raise AssertionError("called")

    with pytest.raises(TokenNotSentError) as refused:
        sent(BearerToken(Credentials(None, source)), address)
    assert str(refused.value).startswith(f"a token is not sent to {address} without TLS")
    assert "Give tls_ca" in str(refused.value)


def test_a_client_that_sends_often_looks_at_the_file_and_does_not_read_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "alice.jwt"
    path.write_text("first")
    token = BearerToken(Credentials(TLS, token_file=str(path)))
    assert sent(token) == "first"
    # The same size and time as before: to the client nothing has changed.
    status = os.stat(path)
    path.write_text("other")
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))
    assert sent(token) == "first"
