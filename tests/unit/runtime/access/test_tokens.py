"""Who a caller is, by its bearer token: what is accepted, and every reason for which a token is refused."""

import base64
import hashlib
import hmac
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import rsa
from hightide_runtime.access import tokens
from hightide_runtime.access.callers import UnknownToken
from hightide_runtime.access.client_identities import TokenSettings
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.access.tokens import CACHE_MAX, LEEWAY_S, PROVEN_FOR_S_MAX, CallersByToken
from hypothesis import given
from hypothesis import strategies as st
from token_issuer import AUDIENCE, HOUR_S, ISSUER, TokenIssuer, unsigned, write_key_set

FIRST = TokenIssuer()
RSA = TokenIssuer("rsa", rsa.generate_private_key(65537, 2048), "RS256")
ALICE = Principal(Role.CLIENT, "alice")
NOW_S = int(time.time())


@dataclass
class Call:
    """What is known of a call."""

    metadata: Any

    def auth_context(self) -> Mapping[str, Iterable[bytes]]:
        raise AssertionError("a token is all that counts")

    def invocation_metadata(self) -> Any:
        return self.metadata


@dataclass
class Callers:
    """Callers of a listener, with a clock that the test moves."""

    directory: Path
    keys: tuple[TokenIssuer, ...] = (FIRST, RSA)
    claim: str = "sub"
    wall_s: float = field(default_factory=lambda: NOW_S)
    monotonic_s: float = 0.0

    def __post_init__(self) -> None:
        self.path = write_key_set(self.directory / "keys", *self.keys)
        settings = TokenSettings(self.path, ISSUER, AUDIENCE, self.claim)
        self.tested = CallersByToken(
            settings, wall_s=lambda: self.wall_s, monotonic_s=lambda: self.monotonic_s
        )

    def caller(self, token: str, scheme: str = "Bearer") -> Principal:
        return self.tested.identify(Call((("user-agent", "x"), ("authorization", f"{scheme} {token}"))))

    def refusal(self, token: str) -> str:
        with pytest.raises(UnknownToken) as refused:
            self.caller(token)
        assert token[:40] not in str(refused.value) or not token
        return str(refused.value).removeprefix("the token of the call is refused: ")


@pytest.fixture
def callers(tmp_path: Path) -> Callers:
    return Callers(tmp_path)


@pytest.fixture(scope="module")
def lasting(tmp_path_factory: pytest.TempPathFactory) -> Callers:
    """One for all examples."""
    return Callers(tmp_path_factory.mktemp("tokens"))


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_a_caller_is_whom_its_token_names(callers: Callers, scheme: str) -> None:
    assert callers.caller(FIRST.token(), scheme) == ALICE
    assert callers.caller(RSA.token("bob.b-c_d")) == Principal(Role.CLIENT, "bob.b-c_d")
    assert callers.caller(FIRST.token(aud=["other", AUDIENCE])) == ALICE
    assert callers.caller(FIRST.token(headers={"typ": "at+jwt"})) == ALICE


def test_another_claim_may_name_the_client(tmp_path: Path) -> None:
    callers = Callers(tmp_path, claim="azp")
    assert callers.caller(FIRST.token("somebody", azp="alice")) == ALICE
    assert callers.refusal(FIRST.token("alice")) == "it has no claim 'azp'"


def test_a_token_makes_its_bearer_a_client_and_no_process(callers: Callers) -> None:
    assert callers.caller(FIRST.token("1")) == Principal(Role.CLIENT, "1")
    for name in ("broker/1", "controller/1", "client/alice", "spiffe://hightide/broker/1"):
        assert "the name of a client has 1 to 200 characters" in callers.refusal(FIRST.token(name))


@pytest.mark.parametrize("name", ["", " ", "alice@example.org", "a|b", "ü", "alice\n", "a" * 201])
def test_a_name_that_would_have_to_be_quoted_is_none(callers: Callers, name: str) -> None:
    assert callers.refusal(FIRST.token(name)).startswith(f"its claim 'sub' is {name[:100]!r}, and the name")


@pytest.mark.parametrize(
    ("metadata", "why"),
    [
        ((), "asks for a bearer token, and the call has none; send it as `authorization: Bearer TOKEN`"),
        (None, "the call has none"),
        ((("authorization", "Basic YTpi"),), "is no bearer token"),
        ((("authorization", "Bearer"),), "is no bearer token"),
        ((("authorization", "Bearer "),), "is no bearer token"),
        ((("authorization", FIRST.token()),), "is no bearer token"),
        ((("authorization", f"Bearer {FIRST.token()}"),) * 2, "more than one `authorization`"),
        ((("authorization-bin", f"Bearer {FIRST.token()}".encode()),), "the call has none"),
    ],
)
def test_a_call_without_one_token_is_refused(callers: Callers, metadata: Any, why: str) -> None:
    with pytest.raises(UnknownToken) as refused:
        callers.tested.identify(Call(metadata))
    assert why in str(refused.value)


@pytest.mark.parametrize(
    ("token", "why"),
    [
        (FIRST.token(aud="other"), "it is not for the audience 'hightide'"),
        (FIRST.token(aud=["hightide-other", "hight"]), "it is not for the audience 'hightide'"),
        (FIRST.token(aud=None), "it has no claim 'aud'"),
        (FIRST.token(aud=[]), "it has no claim 'aud'"),
        (FIRST.token(iss="https://issuer.example.evil"), "it is not of the issuer 'https://issuer.example'"),
        (FIRST.token(iss="https://issuer"), "it is not of the issuer 'https://issuer.example'"),
        (FIRST.token(iss=None), "it has no claim 'iss'"),
        (FIRST.token(exp=None), "it has no claim 'exp'"),
        (FIRST.token(None), "it has no claim 'sub'"),
        (
            FIRST.token(headers={"kid": "other"}),
            "its key id (kid) 'other' is unknown: --token-keys has no such",
        ),
        (TokenIssuer(None).token(), "it names no key (kid), and those of --token-keys have names"),
        (TokenIssuer("first").token(), "its signature is not of a key of --token-keys"),
        (
            TokenIssuer("first", RSA.key, "RS256").token(),
            "its algorithm is 'RS256', and the key is for ES256",
        ),
        (
            FIRST.token(headers={"typ": "logout+jwt"}),
            "it is a token for something else, of the type 'logout+jwt'",
        ),
        (FIRST.token(headers={"crit": ["exp"], "exp": 1}), "it is no JWT that can be read"),
        ("nonsense", "it is no JWT that can be read (DecodeError)"),
        ("a.b.c", "it is no JWT that can be read"),
        ("..", "it is no JWT that can be read"),
    ],
)
def test_a_token_that_is_not_for_this_cluster_is_refused_and_why(
    callers: Callers, token: str, why: str
) -> None:
    assert callers.refusal(token).startswith(why)


def test_a_token_without_a_signature_is_refused(callers: Callers) -> None:
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW_S + HOUR_S}
    for algorithm in ("none", "None", "NONE", "nOnE", "", None, ["ES256"], {"alg": "ES256"}, 0):
        header = {"typ": "JWT", "kid": "first", "alg": algorithm}
        for signature in (b"", b"\0" * 64):
            assert callers.refusal(unsigned(header, claims, signature)) != ""
    no_algorithm = unsigned({"typ": "JWT", "kid": "first"}, claims)
    assert callers.refusal(no_algorithm) == "its algorithm is 'None', and the key is for ES256"


@pytest.mark.parametrize("issuer", [FIRST, RSA], ids=["ec", "rsa"])
def test_a_public_key_is_never_the_secret_of_an_hmac(callers: Callers, issuer: TokenIssuer) -> None:
    """RFC 8725, 2.1: everybody has the public key, and could sign with it."""
    claims = {"iss": ISSUER, "aud": AUDIENCE, "sub": "alice", "exp": NOW_S + HOUR_S}
    unmarked = unsigned({"typ": "JWT", "kid": issuer.key_id, "alg": "HS256"}, claims).rpartition(".")[0]
    for secret in (issuer.pem, issuer.pem.strip()):
        mac = hmac.new(secret, unmarked.encode(), hashlib.sha256).digest()
        forged = unsigned({"typ": "JWT", "kid": issuer.key_id, "alg": "HS256"}, claims, mac)
        assert callers.refusal(forged).startswith("its algorithm is 'HS256', and the key is for ")


def test_a_token_is_valid_until_it_expires_and_some_seconds_longer(callers: Callers) -> None:
    token = FIRST.token(exp=NOW_S + 100)
    callers.wall_s = NOW_S + 100 + LEEWAY_S - 0.001
    assert callers.caller(token) == ALICE
    # What was remembered of it is no longer valid either.
    callers.wall_s = NOW_S + 100 + LEEWAY_S
    assert callers.refusal(token).startswith("it expired at 20")
    assert callers.refusal(token).endswith("; get a new one")
    assert Callers(callers.directory, wall_s=NOW_S + 131).refusal(token).startswith("it expired at 20")


def test_a_token_is_not_valid_before_its_time(callers: Callers) -> None:
    token = FIRST.token(nbf=NOW_S + 100)
    callers.wall_s = NOW_S + 100 - LEEWAY_S - 0.001
    assert callers.refusal(token).startswith("it is not valid before 20")
    callers.wall_s = NOW_S + 100 - LEEWAY_S
    assert callers.caller(token) == ALICE


@pytest.mark.parametrize("claim", ["exp", "nbf"])
@pytest.mark.parametrize(
    "value", ["soon", "1e400", True, [1], {}, float("nan"), float("inf"), -float("inf"), 10**400]
)
def test_what_is_no_time_is_refused(callers: Callers, claim: str, value: Any) -> None:
    assert callers.refusal(FIRST.token(**{claim: value})) == f"its claim {claim!r} is no time"


@pytest.mark.parametrize("value", [1e300, 10**18, -(10**18), -1e300, 0, -1])
def test_times_far_away_are_told_too(callers: Callers, value: float) -> None:
    if value > 0:
        assert callers.caller(FIRST.token(exp=value)) == ALICE
        assert callers.refusal(FIRST.token(nbf=value)).startswith("it is not valid before ")
    else:
        assert callers.refusal(FIRST.token(exp=value)).startswith("it expired at ")


def test_a_token_of_a_megabyte_is_refused_before_it_is_looked_at(
    callers: Callers, monkeypatch: pytest.MonkeyPatch
) -> None:
    largest = "a" * (8 * 1024)
    assert callers.refusal(largest).startswith("it is no JWT that can be read")
    monkeypatch.setattr(tokens, "_verify", None)
    assert callers.refusal(largest + "a") == "it has 8193 bytes, and may have 8192"
    assert callers.refusal(FIRST.token(filler="a" * 2**20)).endswith("and may have 8192")


def test_keys_are_replaced_without_a_restart_and_tokens_of_the_old_ones_are_refused(callers: Callers) -> None:
    second = TokenIssuer("second")
    old, new = FIRST.token(), second.token("bob")
    assert callers.caller(old) == ALICE
    assert "is unknown" in callers.refusal(new)
    write_key_set(callers.path, FIRST, second)
    callers.monotonic_s += 1
    assert (callers.caller(old), callers.caller(new)) == (ALICE, Principal(Role.CLIENT, "bob"))
    write_key_set(callers.path, second)
    callers.monotonic_s += 1
    assert callers.refusal(old) == "its key id (kid) 'first' is unknown: --token-keys has no such key"
    assert callers.caller(new) == Principal(Role.CLIENT, "bob")


def test_a_token_is_verified_once(callers: Callers, monkeypatch: pytest.MonkeyPatch) -> None:
    token = FIRST.token()
    assert callers.caller(token) == ALICE
    monkeypatch.setattr(tokens, "_verify", None)
    assert callers.caller(token) == ALICE


def test_few_tokens_are_remembered(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tokens, "CACHE_MAX", 3)
    callers = Callers(tmp_path)
    many = [FIRST.token(f"c{number}") for number in range(5)]
    for token in many:
        callers.caller(token)
        callers.caller(many[0])  # It is used, so that it stays.
    remembered = callers.tested._verified
    assert [each.caller.name for each in remembered.values()] == ["c3", "c4", "c0"]
    assert not any(token.encode() in remembered for token in many)
    assert CACHE_MAX == 4_096


def test_it_is_proven_who_calls_until_the_token_expires_and_a_day_at_most(callers: Callers) -> None:
    def proven_for_s(token: str) -> float | None:
        return callers.tested.proven_for_s(Call((("authorization", f"Bearer {token}"),)))

    token = FIRST.token(exp=NOW_S + 100)
    assert proven_for_s(token) == 100 + LEEWAY_S
    callers.wall_s += 70.5
    assert proven_for_s(token) == 29.5 + LEEWAY_S
    assert proven_for_s(FIRST.token(exp=1e300)) == PROVEN_FOR_S_MAX


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)


@given(
    st.dictionaries(st.sampled_from(["iss", "aud", "sub", "exp", "nbf", "iat", "jti", "x"]), JSON, max_size=8)
)
def test_whatever_an_issuer_signs_makes_a_client_or_nobody(lasting: Callers, claims: dict[str, Any]) -> None:
    try:
        caller = lasting.caller(FIRST.token(**claims))
    except UnknownToken:
        return
    assert caller.role is Role.CLIENT
    assert claims.get("iss", ISSUER) == ISSUER
    assert claims.get("sub", "alice") == caller.name


@given(
    st.dictionaries(st.sampled_from(["alg", "kid", "typ", "crit", "b64", "jwk", "jku", "x5c", "zip"]), JSON)
    | st.text(max_size=50),
    JSON,
    st.binary(max_size=80),
)
def test_nobody_signs_who_has_no_key(lasting: Callers, header: Any, claims: Any, signature: bytes) -> None:
    with pytest.raises(UnknownToken):
        lasting.caller(unsigned(header, claims, signature))


@given(st.text(max_size=200) | st.text("abc.=-_ey", max_size=200))
def test_garbage_is_refused_as_a_token(lasting: Callers, garbage: str) -> None:
    with pytest.raises(UnknownToken):
        lasting.caller(garbage)


def test_json_without_end_is_refused(callers: Callers) -> None:
    for part in (b"[" * 6_000, b'{"a":' * 1_200, b"9" * 6_000):
        encoded = base64.urlsafe_b64encode(part).rstrip(b"=").decode()
        assert callers.refusal(f"{encoded}.e30.AA").startswith("it is no JWT that can be read")
