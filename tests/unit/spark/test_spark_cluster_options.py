"""The options of reads and writes that name the cluster and its files of TLS, under each of their names."""

import pickle
from collections.abc import Mapping

import pytest
from hightide_spark.core.cluster_options import Cluster
from hightide_spark.core.sink_options import write_options
from hightide_spark.core.source_options import batch_options, stream_options
from hightide_spark.errors import (
    ContradictingOptionsError,
    InvalidOptionError,
    MissingOptionError,
    OptionError,
    UnknownOptionError,
)

HERE = {"bootstrap.servers": "broker:9092"}
PLAINTEXT = Cluster("broker:9092")
TRUSTING = Cluster("broker:9092", "ca.pem")
ALICE = Cluster("broker:9092", "ca.pem", "alice.pem", "alice.key")


def clusters(given: Mapping[str, str]) -> list[Cluster]:
    """The cluster that each kind of query finds in the same options."""
    reads = {**HERE, **given, "subscribe": "t"}
    return [
        batch_options(reads).read.cluster,
        stream_options(reads).read.cluster,
        *(
            write_options({**HERE, **given}, is_streaming=streaming, overwrite=False).cluster
            for streaming in (False, True)
        ),
    ]


@pytest.mark.parametrize(
    ("given", "cluster"),
    [
        ({}, PLAINTEXT),
        ({"kafka.security.protocol": "plaintext"}, PLAINTEXT),
        ({"tlsCa": "ca.pem"}, TRUSTING),
        ({"tlsCa": "ca.pem", "kafka.security.protocol": "SSL"}, TRUSTING),
        ({"kafka.ssl.ca.location": "ca.pem"}, TRUSTING),
        ({"kafka.ssl.truststore.location": "ca.pem", "kafka.ssl.truststore.type": "PEM"}, TRUSTING),
        ({"tlsCa": "ca.pem", "tlsCertificate": "alice.pem", "tlsKey": "alice.key"}, ALICE),
        (
            {
                "kafka.security.protocol": "ssl",
                "kafka.ssl.ca.location": "ca.pem",
                "kafka.ssl.certificate.location": "alice.pem",
                "kafka.ssl.key.location": "alice.key",
            },
            ALICE,
        ),
        (
            {
                "tlsCa": "ca.pem",
                "kafka.ssl.keystore.location": "alice.pem",
                "kafka.ssl.keystore.type": "pem",
            },
            Cluster("broker:9092", "ca.pem", "alice.pem", "alice.pem"),
        ),
    ],
)
def test_each_name_means_the_same_for_every_query(given: dict[str, str], cluster: Cluster) -> None:
    assert clusters(given) == [cluster] * 4


def test_a_token_is_the_path_of_a_file_and_kafkas_words_for_it_are_taken() -> None:
    given = {"tlsCa": "ca.pem", "tokenFile": "alice.jwt"}
    sasl = {"kafka.security.protocol": "SASL_SSL", "kafka.sasl.mechanism": "OAUTHBEARER"}
    expected = Cluster("broker:9092", "ca.pem", token_file="alice.jwt")
    assert clusters(given) == clusters(given | sasl) == [expected] * 4
    assert expected.arguments()["token_file"] == "alice.jwt"


@pytest.mark.parametrize(
    ("given", "error", "text"),
    [
        ({"kafka.security.protocol": "SASL_SSL"}, MissingOptionError, "bearer token in tokenFile"),
        ({"kafka.sasl.mechanism": "OAUTHBEARER"}, MissingOptionError, "bearer token in tokenFile"),
        ({"kafka.security.protocol": "SASL_SSL", "tokenFile": "t"}, MissingOptionError, "of the CA"),
        ({"kafka.security.protocol": "SASL_PLAINTEXT"}, InvalidOptionError, "not sent without TLS"),
        ({"kafka.sasl.mechanism": "PLAIN"}, InvalidOptionError, "has no other mechanism of SASL"),
        ({"kafka.security.protocol": "TLS"}, InvalidOptionError, "it may be PLAINTEXT, SSL or SASL_SSL"),
        ({"kafka.security.protocol": "SSL"}, MissingOptionError, "give the certificate of the CA"),
        ({"kafka.security.protocol": "PLAINTEXT", "tlsCa": "c"}, ContradictingOptionsError, "leave out one"),
        ({"tlsCa": "c", "tlsCertificate": "c"}, MissingOptionError, "tlsCertificate is given without tlsKey"),
        ({"tlsCa": "c", "tlsKey": "k"}, MissingOptionError, "tlsKey is given without tlsCertificate"),
        ({"tlsCertificate": "c", "tlsKey": "k"}, MissingOptionError, "without option tlsCa"),
        ({"tlsCa": "c", "kafka.ssl.ca.location": "d"}, InvalidOptionError, "given twice"),
        ({"tlsCa": ""}, InvalidOptionError, "may not be empty"),
        ({"kafka.ssl.truststore.location": "ca.jks"}, MissingOptionError, "type=PEM: it is JKS"),
        ({"kafka.ssl.truststore.type": "PEM"}, MissingOptionError, "without kafka.ssl.truststore.location"),
        ({"kafka.ssl.truststore.type": "JKS"}, InvalidOptionError, "keytool -importkeystore"),
        ({"kafka.ssl.keystore.type": "PKCS12"}, InvalidOptionError, "openssl pkcs12"),
        ({"kafka.ssl.keystore.type": "BKS"}, InvalidOptionError, "it may be PEM"),
        (
            {
                "tlsCa": "c",
                "kafka.ssl.truststore.location": "d",
                "kafka.ssl.truststore.type": "PEM",
            },
            ContradictingOptionsError,
            "tlsCa and kafka.ssl.truststore.location exclude each other",
        ),
    ],
)
def test_what_cannot_be_used_is_refused_with_the_next_step(
    given: dict[str, str], error: type[OptionError], text: str
) -> None:
    with pytest.raises(error) as refused:
        clusters(given)
    assert text in str(refused.value)


@pytest.mark.parametrize(
    "name",
    [
        "kafka.ssl.key.pem",
        "kafka.ssl.keystore.key",
        "kafka.sasl.jaas.config",
    ],
)
def test_a_secret_is_refused_and_never_shown(name: str) -> None:
    with pytest.raises(UnknownOptionError) as refused:
        clusters({name: "s3cret"})
    assert name in str(refused.value)
    assert "s3cret" not in str(refused.value)


def test_a_cluster_travels_to_tasks_and_is_the_key_of_their_connections() -> None:
    there = pickle.loads(pickle.dumps(ALICE))
    assert {there: "connection"}[ALICE] == "connection"
    assert there.arguments() == {
        "bootstrap": "broker:9092",
        "client_id": "spark",
        "tls_ca": "ca.pem",
        "tls_certificate": "alice.pem",
        "tls_key": "alice.key",
    }
    assert PLAINTEXT.arguments("sink") == {"bootstrap": "broker:9092", "client_id": "sink"}


def test_a_client_has_the_name_that_the_user_gives() -> None:
    named = clusters({"kafka.client.id": "nightly"})
    assert [each.arguments("sink")["client_id"] for each in named] == ["nightly"] * 4
