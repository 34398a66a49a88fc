"""Kafka's jars: pinned by coordinates and sums, and refused if one is another."""

import hashlib
from pathlib import Path

import pytest
from hightide_bench.peers.jars import maven_jars
from hightide_bench.peers.jars.maven_jars import (
    KAFKA,
    KAFKA_VERSION,
    SPARK,
    JarSet,
    coordinates_of,
    departures,
    jars_of,
    maven,
    read_sums,
)
from hightide_local.errors import ClusterError


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


def test_a_folder_with_the_pinned_jars_departs_in_nothing(tmp_path: Path) -> None:
    directory = folder_with(tmp_path / "jars", a="one", b="two")
    sums = read_sums(f"{sum_of('one')}  a.jar\n{sum_of('two')}  b.jar\n")
    assert departures(directory, sums) == []


def test_a_jar_that_is_another_is_missing_or_is_foreign_is_told(tmp_path: Path) -> None:
    directory = folder_with(tmp_path / "jars", a="one", c="three")
    assert departures(directory, {"a.jar": sum_of("two"), "b.jar": sum_of("two")}) == [
        "a.jar has another SHA-256 sum",
        "b.jar is missing",
        "c.jar is not one of them",
    ]


def test_a_cache_with_other_jars_is_refused_and_named(tmp_path: Path) -> None:
    directory = folder_with(tmp_path / f"spark-{maven_jars._digest(SPARK)}", evil="code")
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
