"""Where ZooKeeper's jars come from: a release that is named, what Spark ships, else the cache."""

import os
from pathlib import Path

import pytest
from hightide_local.errors import ClusterError
from hightide_local.jars.pinned_jars import digest_of
from hightide_local.jars.zookeeper_jars import ZOOKEEPER, zookeeper_class_path


def test_a_release_of_zookeeper_comes_before_that_of_spark(tmp_path: Path) -> None:
    for name in ("lib/zookeeper-3.9.9.jar", "lib/slf4j-api.jar", "conf/logback.xml", "README.md"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    found = zookeeper_class_path({"HIGHTIDE_ZOOKEEPER_HOME": str(tmp_path)}).split(os.pathsep)
    assert [Path(each).relative_to(tmp_path).as_posix() for each in found] == [
        "conf",
        "lib/slf4j-api.jar",
        "lib/zookeeper-3.9.9.jar",
    ]


def test_a_folder_of_jars_alone_will_do(tmp_path: Path) -> None:
    (tmp_path / "zookeeper-3.9.9.jar").touch()
    found = zookeeper_class_path({"HIGHTIDE_ZOOKEEPER_HOME": str(tmp_path)})
    assert found == str(tmp_path / "zookeeper-3.9.9.jar")


def test_a_zookeeper_home_without_one_is_one_line_and_not_a_reason_to_look_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="HIGHTIDE_ZOOKEEPER_HOME") as raised:
        zookeeper_class_path({"HIGHTIDE_ZOOKEEPER_HOME": str(tmp_path)})
    assert "\n" not in str(raised.value)


def test_of_spark_the_class_path_holds_zookeeper_and_not_all_of_it(tmp_path: Path) -> None:
    jars = [Path(jar).name for jar in zookeeper_class_path({}, tmp_path).split(os.pathsep)]
    assert any(jar.startswith("zookeeper-3") for jar in jars)
    assert not any("spark" in jar for jar in jars)
    assert len(jars) < 60
    assert list(tmp_path.iterdir()) == []


def test_without_spark_they_come_from_the_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hightide_local.jars.zookeeper_jars.find_spec", lambda name: None)
    (tmp_path / f"zookeeper-3.9.5-{digest_of(ZOOKEEPER.sums)}").mkdir()
    with pytest.raises(ClusterError, match=r"the jars of Apache ZooKeeper 3\.9\.5 in .* are not those"):
        zookeeper_class_path({}, tmp_path)


def test_a_spark_without_jars_is_as_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client of Spark Connect is a pyspark that ships none."""
    from importlib.machinery import ModuleSpec

    spec = ModuleSpec("pyspark", None, is_package=True)
    spec.submodule_search_locations = [str(tmp_path / "pyspark")]
    monkeypatch.setattr("hightide_local.jars.zookeeper_jars.find_spec", lambda name: spec)
    (tmp_path / f"zookeeper-3.9.5-{digest_of(ZOOKEEPER.sums)}").mkdir()
    with pytest.raises(ClusterError, match=r"the jars of Apache ZooKeeper 3\.9\.5 in .* are not those"):
        zookeeper_class_path({}, tmp_path)
