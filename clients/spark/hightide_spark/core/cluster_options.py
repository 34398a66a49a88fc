"""The options that say which cluster is read or written, and with which files of TLS; the same for reads and
writes.

`tlsCa`, `tlsCertificate` and `tlsKey` are paths of PEM files, on every machine that runs tasks. Kafka's names
for the same are taken too: those of librdkafka (`kafka.ssl.ca.location`), and those of the Java client where
its files are PEM. `tokenFile` is the path of a file with a bearer token, Kafka's OAUTHBEARER.
`kafka.security.protocol` needs not be given; if it is, it must say what the files say.
"""

from dataclasses import dataclass
from typing import Final, TypedDict

from hightide_spark.core.option_table import Option, OptionValues, text
from hightide_spark.errors import ContradictingOptionsError, MissingOptionError

_CONVERT: Final = (
    "write it as PEM by `keytool -importkeystore -srckeystore STORE -destkeystore STORE.p12 -deststoretype "
    "PKCS12`, then `openssl pkcs12 -in STORE.p12 -out STORE.pem -nodes`"
)


def _protocol(value: str) -> str:
    name = value.strip().upper()
    if name == "SASL_PLAINTEXT":
        raise ValueError("it may be PLAINTEXT, SSL or SASL_SSL: a token is not sent without TLS")
    if name not in ("PLAINTEXT", "SSL", "SASL_SSL"):
        raise ValueError("it may be PLAINTEXT, SSL or SASL_SSL")
    return name


def _mechanism(value: str) -> str:
    name = value.strip().upper()
    if name != "OAUTHBEARER":
        raise ValueError(
            "it may be OAUTHBEARER: Hightide knows clients by certificates and by bearer tokens, and has no "
            "other mechanism of SASL"
        )
    return name


def _store_type(value: str) -> str:
    name = value.strip().upper()
    if name in ("JKS", "PKCS12"):
        raise ValueError(f"it may be PEM: Hightide does not read Java's stores; {_CONVERT}")
    if name != "PEM":
        raise ValueError("it may be PEM")
    return name


BOOTSTRAP: Final = Option(
    "bootstrap.servers", text, "", required=True, aliases=("kafka.bootstrap.servers",)
)  # fmt: skip
TLS_CA: Final[Option[str | None]] = Option("tlsCa", text, None, aliases=("kafka.ssl.ca.location",))
TLS_CERTIFICATE: Final[Option[str | None]] = Option(
    "tlsCertificate", text, None, aliases=("kafka.ssl.certificate.location",)
)
TLS_KEY: Final[Option[str | None]] = Option("tlsKey", text, None, aliases=("kafka.ssl.key.location",))
TOKEN_FILE: Final[Option[str | None]] = Option("tokenFile", text, None)
MECHANISM: Final[Option[str | None]] = Option("kafka.sasl.mechanism", _mechanism, None)
PROTOCOL: Final[Option[str | None]] = Option("kafka.security.protocol", _protocol, None)
TRUSTSTORE: Final[Option[str | None]] = Option("kafka.ssl.truststore.location", text, None)
TRUSTSTORE_TYPE: Final[Option[str | None]] = Option("kafka.ssl.truststore.type", _store_type, None)
KEYSTORE: Final[Option[str | None]] = Option("kafka.ssl.keystore.location", text, None)
KEYSTORE_TYPE: Final[Option[str | None]] = Option("kafka.ssl.keystore.type", _store_type, None)

CLIENT_ID: Final[Option[str | None]] = Option("kafka.client.id", text, None)

CLUSTER_OPTIONS: Final = (
    BOOTSTRAP, CLIENT_ID, TLS_CA, TLS_CERTIFICATE, TLS_KEY,
    PROTOCOL, TRUSTSTORE, TRUSTSTORE_TYPE, KEYSTORE, KEYSTORE_TYPE, TOKEN_FILE, MECHANISM,
)  # fmt: skip


class ClientArguments(TypedDict, total=False):
    """The arguments that all clients of the SDK have in common."""

    bootstrap: str
    client_id: str
    tls_ca: str
    tls_certificate: str
    tls_key: str
    token_file: str


@dataclass(frozen=True, slots=True)
class Cluster:
    """The addresses of a cluster, the paths of the files of TLS and of the token, and this client's name. It
    travels to tasks, and is the key of their connections. Without files the SDK looks into the environment of
    the process."""

    bootstrap: str
    tls_ca: str | None = None
    tls_certificate: str | None = None
    tls_key: str | None = None
    token_file: str | None = None
    client_id: str | None = None

    def arguments(self, client_id: str = "spark") -> ClientArguments:
        """The arguments for a client of the SDK, which is called `client_id` if the user names none."""
        given = ClientArguments(bootstrap=self.bootstrap, client_id=self.client_id or client_id)
        if self.tls_ca is not None:
            given["tls_ca"] = self.tls_ca
        if self.tls_certificate is not None and self.tls_key is not None:
            given["tls_certificate"], given["tls_key"] = self.tls_certificate, self.tls_key
        if self.token_file is not None:
            given["token_file"] = self.token_file
        return given


def cluster_of(values: OptionValues) -> Cluster:
    """The cluster that the options name. Raises MissingOptionError, ContradictingOptionsError."""
    for store, kind in ((TRUSTSTORE, TRUSTSTORE_TYPE), (KEYSTORE, KEYSTORE_TYPE)):
        if values.is_given(store) and not values.is_given(kind):
            raise MissingOptionError(
                f"option {store.name} needs {kind.name}=PEM: it is JKS for Kafka otherwise, which Hightide "
                f"does not read; {_CONVERT}"
            )
        if values.is_given(kind) and not values.is_given(store):
            raise MissingOptionError(f"option {kind.name} is given without {store.name}; give both")
    ca = _either(values, TLS_CA, TRUSTSTORE)
    # A PEM keystore of Kafka has the key and the certificates in one file.
    certificate = _either(values, TLS_CERTIFICATE, KEYSTORE)
    key = _either(values, TLS_KEY, KEYSTORE)
    if (certificate is None) != (key is None):
        there, missing = (TLS_CERTIFICATE, TLS_KEY) if key is None else (TLS_KEY, TLS_CERTIFICATE)
        raise MissingOptionError(f"option {there.name} is given without {missing.name}; give both")
    if certificate is not None and ca is None:
        raise MissingOptionError(
            f"a certificate is given without option {TLS_CA.name}: give the certificate of the CA that "
            "signed those of the servers"
        )
    _check_sasl(values)
    if values[PROTOCOL] in ("SSL", "SASL_SSL") and ca is None:
        raise MissingOptionError(
            f"option {PROTOCOL.name} is {values[PROTOCOL]}: give the certificate of the CA of the cluster in "
            f"{TLS_CA.name}"
        )
    if values[PROTOCOL] == "PLAINTEXT" and ca is not None:
        raise ContradictingOptionsError(
            f"option {PROTOCOL.name} is PLAINTEXT, and files of TLS are given; leave out one or the other"
        )
    return Cluster(values[BOOTSTRAP], ca, certificate, key, values[TOKEN_FILE], values[CLIENT_ID])


def _check_sasl(values: OptionValues) -> None:
    """Kafka's words for a token may be there, and then the token as well. Raises MissingOptionError."""
    if values[TOKEN_FILE] is not None:
        return
    said = MECHANISM if values[MECHANISM] is not None else PROTOCOL
    if said is MECHANISM or values[PROTOCOL] == "SASL_SSL":
        raise MissingOptionError(
            f"option {said.name} is {values[said]}: give the path of a file with a bearer token in "
            f"{TOKEN_FILE.name}"
        )


def _either(values: OptionValues, one: Option[str | None], other: Option[str | None]) -> str | None:
    if values.is_given(one) and values.is_given(other):
        raise ContradictingOptionsError(
            f"options {one.name} and {other.name} exclude each other; give one of them"
        )
    return values[one] if values[one] is not None else values[other]
