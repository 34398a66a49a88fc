"""ZooKeeper maps its classes from an archive where a JVM has written one, and starts without any other."""

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest
from hightide_local.jars.zookeeper_jars import zookeeper_class_path
from hightide_local.processes import class_archive
from hightide_local.processes.embedded_zookeeper import EmbeddedZooKeeper
from hightide_local.processes.java import find_java
from hightide_local.processes.making_class_archive import make_archive

# The JVM says of each class that it loads where from.
SAYS_WHERE_FROM = "-Xlog:class+load:stdout"
MAIN_CLASS = "org.apache.zookeeper.server.ZooKeeperServerMain"


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("archive")
    make_archive(directory, find_java(), zookeeper_class_path())
    return directory


def source_of_the_main_class(directory: Path, class_sharing: Sequence[str]) -> str:
    with EmbeddedZooKeeper(directory, class_sharing=[*class_sharing, SAYS_WHERE_FROM]):
        log = (directory / "zookeeper.log").read_text(errors="replace")
    return next(line for line in log.splitlines() if f" {MAIN_CLASS} " in line).partition("source: ")[2]


def test_zookeeper_maps_its_classes_from_the_archive(directory: Path, tmp_path: Path) -> None:
    options = class_archive.options(directory, find_java(), zookeeper_class_path())
    assert source_of_the_main_class(tmp_path, options) == "shared objects file (top)"


def test_it_is_written_once_and_leaves_nothing_else(directory: Path) -> None:
    (archive,) = directory.iterdir()
    written = archive.stat().st_mtime_ns
    assert make_archive(directory, find_java(), zookeeper_class_path()) == archive
    assert archive.stat().st_mtime_ns == written


@pytest.mark.parametrize("content", [b"", b"no archive", b"\0" * 100_000])
def test_with_a_file_that_is_no_archive_zookeeper_starts_as_without(tmp_path: Path, content: bytes) -> None:
    java, class_path = find_java(), zookeeper_class_path()
    class_archive.archive_path(tmp_path, java, class_path).write_bytes(content)
    options = class_archive.options(tmp_path, java, class_path)
    assert options != ()
    assert "zookeeper-3" in source_of_the_main_class(tmp_path / "zookeeper", options)


def test_where_there_is_none_the_jvm_is_told_of_none(tmp_path: Path) -> None:
    java, class_path = find_java(), zookeeper_class_path()
    assert class_archive.options(tmp_path, java, class_path) == ()
    assert class_archive.options(None, java, class_path) == ()
    assert class_archive.options(tmp_path, tmp_path / "bin" / "java", str(tmp_path / "no.jar")) == ()


def test_other_jars_have_an_archive_of_their_own(tmp_path: Path) -> None:
    jar = tmp_path / "a.jar"
    jar.write_bytes(b"one")
    first = class_archive.archive_path(tmp_path, find_java(), str(jar))
    jar.write_bytes(b"another")
    assert class_archive.archive_path(tmp_path, find_java(), str(jar)) != first


def test_what_a_jvm_does_not_accept_is_not_left_behind(tmp_path: Path) -> None:
    java = tmp_path / "jdk" / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\nexit 1\n")
    java.chmod(0o755)
    directory = tmp_path / "archives"
    with pytest.raises(subprocess.CalledProcessError):
        make_archive(directory, java, zookeeper_class_path())
    assert os.listdir(directory) == []
