"""The file of keys that tokens are verified with."""

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519, rsa, x25519
from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat, PublicFormat
from hightide_runtime.access.token_keys import KeysRefused, ReloadedTokenKeys, read_token_keys
from hightide_runtime.errors import StartupError
from token_issuer import TokenIssuer, write_key_set

RSA_KEY = rsa.generate_private_key(65537, 2048)


def private_pem(key: Any) -> bytes:
    pem: bytes = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    return pem


def public_pem(key: Any) -> bytes:
    pem: bytes = key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    return pem


@pytest.mark.parametrize(
    ("issuer", "algorithms"),
    [
        (TokenIssuer(key=ec.generate_private_key(ec.SECP256R1())), ("ES256",)),
        (TokenIssuer(key=ec.generate_private_key(ec.SECP384R1()), algorithm="ES384"), ("ES384",)),
        (TokenIssuer(key=ec.generate_private_key(ec.SECP521R1()), algorithm="ES512"), ("ES512",)),
        (TokenIssuer(key=ed25519.Ed25519PrivateKey.generate(), algorithm="EdDSA"), ("EdDSA",)),
        (
            TokenIssuer(key=RSA_KEY, algorithm="RS256"),
            ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
        ),
    ],
    ids=lambda value: value.algorithm if isinstance(value, TokenIssuer) else "",
)
def test_the_kind_of_a_key_decides_what_may_be_signed_with_it(
    issuer: TokenIssuer, algorithms: tuple[str, ...], tmp_path: Path
) -> None:
    (by_id,) = read_token_keys(write_key_set(tmp_path / "keys", issuer)).candidates("first")
    assert by_id.algorithms == algorithms
    (tmp_path / "pem").write_bytes(issuer.pem)
    (nameless,) = read_token_keys(tmp_path / "pem").candidates("any")
    assert nameless.algorithms == algorithms


def test_a_key_that_names_its_algorithm_is_for_no_other(tmp_path: Path) -> None:
    jwk = TokenIssuer(key=RSA_KEY, algorithm="RS256").jwk
    (key,) = read_token_keys(write_key_set(tmp_path / "keys", jwk | {"alg": "PS256"})).candidates("first")
    assert key.algorithms == ("PS256",)


def test_keys_for_something_else_are_left_out(tmp_path: Path) -> None:
    good = TokenIssuer("good")
    odd = [
        TokenIssuer("secp256k1", ec.generate_private_key(ec.SECP256K1()), "ES256K").jwk,
        TokenIssuer("small", rsa.generate_private_key(65537, 1024), "RS256").jwk,
        TokenIssuer("encryption").jwk | {"use": "enc"},
        TokenIssuer("hmac").jwk | {"alg": "HS256"},
        {"kty": "OKP", "crv": "X25519", "kid": "x25519", "x": "A" * 43},
        {"kty": "of the future", "kid": "future"},
        {"kty": "EC", "crv": "P-256", "kid": "broken", "x": "AA", "y": "AA"},
        {"kid": "nothing"},
    ]
    keys = read_token_keys(write_key_set(tmp_path / "keys", *odd, good))
    assert [len(keys.candidates(str(each.get("kid")))) for each in odd] == [0] * len(odd)
    assert len(keys.candidates("good")) == 1
    with pytest.raises(KeysRefused, match="has no public key for signatures: RSA of 2048 to 8192 bits"):
        read_token_keys(write_key_set(tmp_path / "keys", *odd))


def test_a_token_is_tried_with_the_key_that_it_names_and_with_few_others(tmp_path: Path) -> None:
    one, two, nameless = TokenIssuer("one"), TokenIssuer("two"), TokenIssuer(None)
    keys = read_token_keys(write_key_set(tmp_path / "keys", one, two, nameless))
    assert [key.key_id for key in keys.candidates("one")] == ["one"]
    assert [key.key_id for key in keys.candidates("other")] == [None]
    assert [key.key_id for key in keys.candidates(None)] == [None]
    assert read_token_keys(write_key_set(tmp_path / "keys", one, two)).candidates(None) == []
    (only,) = read_token_keys(write_key_set(tmp_path / "keys", one)).candidates(None)
    assert only.key_id == "one"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"", "has no public key for signatures"),
        (b"nonsense", "has no public key for signatures"),
        (b"{", "is no JWK set: "),
        (b"{}", "it has no list `keys`"),
        (b'{"keys": {}}', "it has no list `keys`"),
        (b'{"keys": [1]}', "one of its keys is no object"),
        (b'{"keys": []}', "has no public key for signatures"),
        (b'{"keys": ' + b"[" * 100_000, "is no JWK set: "),
        (json.dumps({"keys": [{"kty": "oct", "k": "c2VjcmV0"}]}).encode(), "has a secret or private key"),
        (b"x" * (256 * 1024 + 1), "has more than 262144 bytes"),
        (private_pem(RSA_KEY), "has a private key"),
        (public_pem(RSA_KEY) + private_pem(RSA_KEY), "has a private key"),
        (
            b"-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n",
            "has a CERTIFICATE, and no public",
        ),
        (b"-----BEGIN PUBLIC KEY-----\nAAAA\n-----END PUBLIC KEY-----\n", "that cannot be read"),
        (public_pem(x25519.X25519PrivateKey.generate()), "has a public key of another kind"),
        (public_pem(rsa.generate_private_key(65537, 1024)), "has a public key of another kind"),
        (public_pem(RSA_KEY) * 5, "has more than 4 keys without a kid"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_sentence(
    content: bytes, why: str, tmp_path: Path
) -> None:
    path = tmp_path / "keys"
    path.write_bytes(content)
    with pytest.raises(KeysRefused) as refused:
        read_token_keys(path)
    assert why in str(refused.value)
    assert str(refused.value).startswith(str(path))


def test_a_set_with_a_private_key_is_refused(tmp_path: Path) -> None:
    jwk = TokenIssuer().jwk
    with pytest.raises(KeysRefused, match="has a secret or private key; whoever reads it could sign tokens"):
        read_token_keys(write_key_set(tmp_path / "keys", jwk | {"d": "AAAA"}))


def test_a_set_without_end_is_refused(tmp_path: Path) -> None:
    keys = [TokenIssuer(str(number)) for number in range(65)]
    with pytest.raises(KeysRefused, match="has 65 keys, and may have 64"):
        read_token_keys(write_key_set(tmp_path / "keys", *keys))


def test_a_process_does_not_start_without_its_keys(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=r"^--token-keys: .*/keys cannot be read: No such file"):
        ReloadedTokenKeys(tmp_path / "keys", lambda: 0.0)


def test_a_file_that_changes_is_read_again_and_one_that_cannot_be_used_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    now_s = 0.0
    path = write_key_set(tmp_path / "keys", TokenIssuer("old"))
    keys = ReloadedTokenKeys(path, lambda: now_s)
    first = keys.current()
    write_key_set(path, TokenIssuer("new"))
    now_s = 0.5
    assert keys.current() is first  # Not every call looks at the file.
    now_s = 1.0
    second = keys.current()
    assert ([*second.candidates("old")], len(second.candidates("new"))) == ([], 1)
    now_s = 2.0
    path.write_text("{")
    assert keys.current() is second
    now_s = 3.0
    path.unlink()
    assert keys.current() is second
    assert [each.levelname for each in caplog.records] == ["WARNING"] * 2
    write_key_set(path, TokenIssuer("old"))
    now_s = 4.0
    assert len(keys.current().candidates("old")) == 1
