"""A job takes Hightide along to workers whose Python has none, by the commands of the page on clusters.

The page's other ways install more; `make spark-versions` carries them out.
"""

import os
import subprocess
import sys
from pathlib import Path

import pyspark
from docs.borrowed_packages import make_environment
from docs.markdown import ROOT, Fence, fences_of
from docs.own_wheel import build_wheel
from docs.session import BlockError, Session
from hightide import Admin
from hightide_local.cluster import LocalCluster
from hightide_local.processes.spark_cluster import SparkCluster

HEADING = "py-files"
#: Ends what hangs: the JVMs of a job take minutes to start on a machine that does much else.
BLOCK_S = 600
#: What a job of a second does not need: a page of Spark's own, and a port on all addresses.
SPARK_DEFAULTS = """
spark.ui.enabled false
spark.driver.host 127.0.0.1
spark.driver.bindAddress 127.0.0.1
spark.sql.shuffle.partitions 2
"""


def blocks() -> list[Fence]:
    """The job, and the commands that ship it."""
    found = fences_of(ROOT / "docs" / "spark-cluster.md")
    return [fence for fence in found if "file=job.py" in fence.info or fence.heading == HEADING]


def test_py_files_bring_hightide_to_workers_that_have_none(
    cluster: LocalCluster, java_home: str, tmp_path: Path
) -> None:
    python = make_environment(tmp_path / "python", Path(pyspark.__file__).parents[1])
    without = subprocess.run([python, "-c", "import hightide"], capture_output=True, check=False)
    assert b"No module named 'hightide'" in without.stderr, "the workers have it anyway"
    build_wheel(tmp_path / "wheels")
    (tmp_path / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
    with Admin(cluster.bootstrap) as admin:
        admin.create_topic(HEADING, partitions=2, replication_factor=len(cluster.brokers))
    environment = os.environ | {
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PIP_NO_INDEX": "1",
        "PIP_FIND_LINKS": str(tmp_path / "wheels"),
        "SPARK_HOME": str(Path(pyspark.__file__).parent),
        "SPARK_CONF_DIR": str(tmp_path),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": str(python),
    }
    with SparkCluster(tmp_path / "spark", workers=1, cores_per_worker=2) as spark:

        def substitute(text: str) -> str:
            shown = text.replace("spark://127.0.0.1:7077", spark.master_url)
            return shown.replace("127.0.0.1:9092", cluster.bootstrap.split(",")[0])

        with Session(tmp_path, environment, substitute=substitute, block_s=BLOCK_S) as session:
            for fence in blocks():
                try:
                    session.follow(fence)
                except BlockError as error:
                    for log in (tmp_path / "reader").glob("*.log"):
                        error.add_note(f"{log.name}:\n{log.read_text()[-6000:]}")
                    raise
