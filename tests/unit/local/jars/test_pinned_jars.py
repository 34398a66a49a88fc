"""Jars that are pinned by coordinates and sums: a folder is taken as it is, or refused as it is."""

import hashlib
from pathlib import Path

import pytest
from hightide_local.errors import ClusterError
from hightide_local.jars.pinned_jars import PinnedJar, PinnedJars, departures, digest_of, jars_in
from hightide_local.jars.zookeeper_jars import ZOOKEEPER


def sum_of(content: str) -> str:
    return hashlib.sha256(content.encode()).hexdigest()


def pinned(**contents: str) -> PinnedJars:
    jars = [PinnedJar(f"org.log:{name}:1.0", len(text), sum_of(text)) for name, text in contents.items()]
    return PinnedJars("log-1.0", "the log", tuple(jars))


def folder_with(directory: Path, **contents: str) -> Path:
    directory.mkdir(parents=True)
    for name, content in contents.items():
        (directory / f"{name}-1.0.jar").write_text(content)
    return directory


def test_a_folder_with_the_pinned_jars_departs_in_nothing(tmp_path: Path) -> None:
    directory = folder_with(tmp_path / "jars", a="one", b="two")
    assert departures(directory, pinned(a="one", b="two").sums) == []


def test_a_jar_that_is_another_is_missing_or_is_foreign_is_told(tmp_path: Path) -> None:
    directory = folder_with(tmp_path / "jars", a="one", c="three")
    assert departures(directory, pinned(a="two", b="two").sums) == [
        "a-1.0.jar has another SHA-256 sum",
        "b-1.0.jar is missing",
        "c-1.0.jar is not one of them",
    ]


def test_jars_that_are_there_need_no_repository(tmp_path: Path) -> None:
    jars = pinned(a="one")
    directory = folder_with(tmp_path / f"log-1.0-{digest_of(jars.sums)}", a="one")
    assert jars_in(tmp_path, jars) == [directory / "a-1.0.jar"]


def test_a_cache_with_other_jars_is_refused_and_named(tmp_path: Path) -> None:
    jars = pinned(a="one")
    directory = folder_with(tmp_path / f"log-1.0-{digest_of(jars.sums)}", a="evil")
    with pytest.raises(
        ClusterError, match=f"{directory} are not those that are pinned: a-1.0.jar has .*; delete this folder"
    ):
        jars_in(tmp_path, jars)


def test_other_jars_have_another_folder() -> None:
    assert digest_of(pinned(a="one").sums) != digest_of(pinned(a="two").sums)


@pytest.mark.parametrize("jar", ZOOKEEPER.jars, ids=lambda jar: jar.file_name)
def test_each_jar_of_zookeeper_is_pinned_by_version_size_and_sum(jar: PinnedJar) -> None:
    group, artifact, version = jar.coordinates.split(":")
    assert group
    assert artifact
    assert version[0].isdigit()
    assert 0 < jar.size_bytes < 3_000_000
    assert len(bytes.fromhex(jar.sha256)) == hashlib.sha256().digest_size
