"""Kafka's jars: pinned by coordinates and sums, and refused if one is another."""

import hashlib
from pathlib import Path

import pytest
from hightide_bench.peers.jars.maven_jars import (
    KAFKA,
    KAFKA_VERSION,
    SPARK,
    JarSet,
    coordinates_of,
    jars_of,
    maven,
    read_sums,
)
from hightide_local.errors import ClusterError
from hightide_local.jars.pinned_jars import digest_of


@pytest.mark.parametrize("jars", [KAFKA, SPARK], ids=lambda jars: jars.name)
def test_what_a_pom_asks_for_is_among_the_pinned_jars(jars: JarSet) -> None:
    asked = [coordinate.split(":") for coordinate in coordinates_of(jars.pom)]
    assert asked
    assert {f"{artifact}-{version}.jar" for _, artifact, version in asked} <= jars.sums.keys()


def test_kafka_is_of_the_version_that_the_table_names() -> None:
    assert f"org.apache.kafka:kafka_2.13:{KAFKA_VERSION}" in coordinates_of(KAFKA.pom)


def folder_with(directory: Path, **contents: str) -> Path:
    directory.mkdir(parents=True)
    for name, content in contents.items():
        (directory / f"{name}.jar").write_text(content)
    return directory


def sum_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def test_a_cache_with_other_jars_is_refused_and_named(tmp_path: Path) -> None:
    directory = folder_with(tmp_path / f"spark-{digest_of(SPARK.sums)}", evil="code")
    with pytest.raises(
        ClusterError, match=f"{directory} are not those that are pinned: .*; delete this folder"
    ):
        jars_of(SPARK, tmp_path)


def test_without_maven_one_sentence_says_what_to_install(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match=r"^no Maven found.*: install `mvn`, and a JDK 17$"):
        maven({"PATH": str(tmp_path)})


def test_a_file_with_a_path_is_no_list_of_sums() -> None:
    with pytest.raises(AssertionError):
        read_sums(f"{sum_of('x')}  ../evil.jar\n")
