"""Spark with a bearer token on a cluster that asks for tokens: tasks have the path of a file, and read it."""

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hightide import Admin
from hightide.records import TopicPartition
from hightide_local.cluster import LocalCluster
from integration.sdk import outside_token_listener
from token_issuer import AUDIENCE, ISSUER, TokenIssuer, write_key_set

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

COMPANY = TokenIssuer("company")
ROWS = 200


class Guarded:
    """The cluster as programs outside see it, and where they find the CA and the token of alice."""

    def __init__(self, cluster: LocalCluster, token_file: Path) -> None:
        assert cluster.certificates is not None
        self.ca = cluster.certificates.client.ca
        self.token_file = token_file
        ports = (address.rpartition(":")[2] for address in cluster.brokers.values())
        self.bootstrap = ",".join(f"{outside_token_listener.OUTSIDE}:{port}" for port in ports)

    @property
    def options(self) -> dict[str, str]:
        """As a user of Kafka's OAUTHBEARER writes them, but for the path of the token."""
        return {
            "kafka.bootstrap.servers": self.bootstrap,
            "kafka.security.protocol": "SASL_SSL",
            "kafka.sasl.mechanism": "OAUTHBEARER",
            "kafka.ssl.truststore.location": str(self.ca),
            "kafka.ssl.truststore.type": "PEM",
            "kafka.sasl.jaas.config": "OAuthBearerLoginModule required clientSecret='s3cret';",
            "tokenFile": str(self.token_file),
        }


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    directory = tmp_path_factory.mktemp("tokens")
    keys = write_key_set(directory / "keys.json", COMPANY)
    asking = ("--token-keys", str(keys), "--token-issuer", ISSUER, "--token-audience", AUDIENCE)

    def program(module: str) -> tuple[str, ...]:
        return sys.executable, outside_token_listener.__file__, module

    with LocalCluster(
        directory / "cluster",
        brokers=1,
        controllers=1,
        coordinators=1,
        tls=True,
        broker_program=program("hightide_broker.main"),
        controller_program=program("hightide_controller.main"),
        coordinator_program=program("hightide_coordinator.main"),
        broker_arguments=asking,
        controller_arguments=asking,
        coordinator_arguments=asking,
    ) as cluster:
        cluster.active_coordinator()
        token_file = directory / "alice.jwt"
        token_file.write_text(COMPANY.token())
        yield Guarded(cluster, token_file)


def admin_of(guarded: Guarded) -> Admin:
    return Admin(guarded.bootstrap, tls_ca=guarded.ca, token_file=guarded.token_file)


def write(spark: "SparkSession", guarded: Guarded, topic: str, **options: str) -> None:
    rows = spark.range(ROWS).selectExpr("CAST(id AS STRING) AS value")
    rows.write.format("hightide").options(**guarded.options | options, topic=topic).mode("append").save()


def test_batches_and_streams_write_and_read_and_a_stream_publishes_its_progress(
    spark: "SparkSession", guarded: Guarded, tmp_path: Path
) -> None:
    with admin_of(guarded) as admin:
        for name in ("first", "second"):
            admin.create_topic(name, 2, 1)
    write(spark, guarded, "first")
    stream = spark.readStream.format("hightide").options(
        **guarded.options, subscribe="first", startingOffsets="earliest", groupId="copier"
    )
    copy = stream.load().writeStream.format("hightide").options(**guarded.options, topic="second")
    query = copy.option("checkpointLocation", str(tmp_path / "checkpoint")).trigger(availableNow=True).start()
    query.awaitTermination()

    found = spark.read.format("hightide").options(**guarded.options, subscribe="second").load()
    assert sorted(int(row.value) for row in found.select("value").collect()) == list(range(ROWS))
    with admin_of(guarded) as admin:
        lag = {each.partition: each.lag for each in admin.group_lag("copier")}
    assert lag == {TopicPartition("first", 0): 0, TopicPartition("first", 1): 0}


def test_a_token_that_brokers_refuse_fails_the_query_and_says_why(
    spark: "SparkSession", guarded: Guarded, tmp_path: Path
) -> None:
    stranger = tmp_path / "stranger.jwt"
    stranger.write_text(TokenIssuer("company").token())
    with admin_of(guarded) as admin:
        admin.create_topic("refused", 1, 1)
    with pytest.raises(Exception, match="its signature is not of a key of --token-keys") as refused:
        write(spark, guarded, "refused", tokenFile=str(stranger))
    assert stranger.read_text() not in str(refused.value)
    assert "s3cret" not in str(refused.value)
    read = spark.read.format("hightide").options(**guarded.options, subscribe="refused").load()
    assert read.count() == 0
