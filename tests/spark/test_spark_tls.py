"""Spark writes and reads a cluster with TLS, by Kafka's option names."""

from typing import TYPE_CHECKING

import pytest
from hightide import Admin
from hightide_local.cluster import LocalCluster

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_rows_go_to_a_cluster_with_tls_and_come_back(
    spark: "SparkSession", tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("tls")
    with LocalCluster(directory, brokers=1, controllers=1, coordinators=0, tls=True) as cluster:
        assert cluster.certificates is not None
        client = cluster.certificates.client
        with Admin(
            cluster.bootstrap, tls_ca=client.ca, tls_certificate=client.certificate, tls_key=client.key
        ) as admin:
            admin.create_topic("rows", 2)
        keystore = directory / "keystore.pem"
        keystore.write_bytes(client.key.read_bytes() + client.certificate.read_bytes())
        options = {
            "kafka.bootstrap.servers": cluster.bootstrap,
            "kafka.security.protocol": "SSL",
            "kafka.ssl.truststore.location": str(client.ca),
            "kafka.ssl.truststore.type": "PEM",
            "kafka.ssl.keystore.location": str(keystore),
            "kafka.ssl.keystore.type": "PEM",
        }
        rows = spark.range(100).selectExpr("CAST(id AS STRING) AS value")
        rows.write.format("hightide").options(**options, topic="rows").mode("append").save()
        found = spark.read.format("hightide").options(**options, subscribe="rows").load()
        assert sorted(int(row.value) for row in found.select("value").collect()) == list(range(100))
