"""The pages about Spark on a cluster and about tables, carried out as they stand. They download packages and
jars, so that `make test` leaves them out."""

import os
import subprocess
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from docs.borrowed_packages import make_environment
from docs.docs_cluster import DocsCluster
from docs.markdown import ROOT, fences_of
from docs.own_wheel import build_wheel
from docs.session import Session
from docs.shown_ports import ShownPorts
from spark_versions.environments import Environment, environments

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(3600)]

BLOCK_S = 1_200
CLUSTER, TABLES = ("A cluster to try",), ("Install",)
#: The page, the folder in which it makes its environment, the Spark that this one has, and what a reader does
#: of the page.
READINGS = [
    ("spark-cluster.md", "spark", "4.2", (*CLUSTER, "py-files")),
    ("spark-cluster.md", "spark", "4.2", (*CLUSTER, "archives")),
    ("spark-cluster.md", "spark", "4.2", (*CLUSTER, "A wheel on each machine", "Spark Connect")),
    ("spark-tables.md", "spark-4.1", "4.1", (*TABLES, "Delta", "From Delta into a topic")),
    ("spark-tables.md", "spark-4.1", "4.1", (*TABLES, "Iceberg")),
]
#: What a cluster of one machine does not need: a page of Spark's own, and tasks for thousands of files.
SPARK_DEFAULTS = """
spark.ui.enabled false
spark.sql.shuffle.partitions 2
spark.databricks.delta.snapshotPartitions 1
"""


@pytest.fixture(scope="module")
def docs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocsCluster]:
    cluster = DocsCluster(tmp_path_factory.mktemp("home"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def wheels(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the wheel of this tree, where pip looks beside its index."""
    return build_wheel(tmp_path_factory.mktemp("wheels")).parent


def environment_of(version: str) -> Environment:
    """The one of `make spark-versions`, without Hightide: a reader has none before the page says so."""
    found = [each for each in environments() if each.version.startswith(version)]
    if not found:
        pytest.skip(f"SPARK_VERSIONS has no {version}")
    without = [str(found[0].python), "-m", "pip", "uninstall", "--quiet", "--yes", "hightide"]
    subprocess.run(without, check=True, timeout=120, capture_output=True)
    return found[0]


@contextmanager
def archive_of_pyspark(packages: Path) -> Iterator[None]:
    """The archive of PySpark's modules that a reader's Spark has, and that of `make spark-versions` lacks: an
    environment that a job brings along has no other. Here it is compiled, as Spark's own is not."""
    archive = packages / "pyspark" / "python" / "lib" / "pyspark.zip"
    with zipfile.PyZipFile(str(archive), "w") as modules:
        modules.writepy(str(packages / "pyspark"))
        for read in (packages / "pyspark").rglob("*.json"):
            modules.write(read, read.relative_to(packages))
    try:
        yield
    finally:
        archive.unlink()


def test_every_block_with_a_program_is_read_by_somebody() -> None:
    for page in {page for page, *_ in READINGS}:
        read = {heading for each, *_, headings in READINGS if each == page for heading in headings}
        assert read == {fence.heading for fence in fences_of(ROOT / "docs" / page)}


@pytest.mark.parametrize(
    ("page", "folder", "version", "headings"),
    READINGS,
    ids=["py-files", "archives", "wheel and Connect", "tables of Delta", "tables of Iceberg"],
)
def test_every_block_of_the_page_does_what_it_says(
    page: str,
    folder: str,
    version: str,
    headings: tuple[str, ...],
    docs_cluster: DocsCluster,
    wheels: Path,
    tmp_path: Path,
) -> None:
    spark = environment_of(version)
    docs_cluster.start()
    ports = ShownPorts()
    links = f"{os.environ.get('PIP_FIND_LINKS', '')} {wheels}".strip()
    (tmp_path / "spark-defaults.conf").write_text(SPARK_DEFAULTS)
    environment = docs_cluster.environment() | {"PIP_FIND_LINKS": links, "SPARK_CONF_DIR": str(tmp_path)}

    def substitute(text: str) -> str:
        return ports.substitute(docs_cluster.substitute(text))

    (packages,) = spark.folder.glob("lib/python3*/site-packages")
    with (
        archive_of_pyspark(packages),
        Session(tmp_path, environment, substitute=substitute, block_s=BLOCK_S) as session,
    ):
        make_environment(tmp_path / "reader" / folder, packages)
        for fence in fences_of(ROOT / "docs" / page):
            if fence.heading in headings:
                session.follow(fence)
