"""Every command and every program of the pages, carried out as they stand."""

import shutil
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest
from docs.block_places import blocks_of, has_programs, name_of, pages_with_blocks
from docs.docs_cluster import DocsCluster
from docs.notation import marks_of
from docs.session import Session

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(900)]

_GRPCURL = Path(__file__).with_name("grpcurl_by_buf.py")


@pytest.fixture(scope="module")
def docs_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[DocsCluster]:
    cluster = DocsCluster(tmp_path_factory.mktemp("home"))
    try:
        yield cluster
    finally:
        cluster.stop()


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of commands that the pages use and this machine does not have."""
    folder = tmp_path_factory.mktemp("tools")
    if shutil.which("grpcurl") is None:
        stand_in = folder / "grpcurl"
        stand_in.write_text(f'#!/bin/sh\nexec "{sys.executable}" "{_GRPCURL}" "$@"\n')
        stand_in.chmod(0o755)
    return folder


@cache
def has_container_engine() -> bool:
    """Whether `docker` answers here."""
    if shutil.which("docker") is None:
        return False
    return subprocess.run(["docker", "info"], capture_output=True, timeout=60, check=False).returncode == 0


@pytest.mark.parametrize("page", [page for page in pages_with_blocks() if has_programs(page)], ids=name_of)
def test_every_block_of_the_page_does_what_it_says(
    page: Path, docs_cluster: DocsCluster, tools: Path, tmp_path: Path
) -> None:
    docs_cluster.start()
    environment = docs_cluster.environment()
    environment["PATH"] = f"{environment['PATH']}:{tools}"
    with Session(
        tmp_path,
        environment,
        substitute=docs_cluster.substitute,
        bootstrap=lambda: docs_cluster.bootstrap,
    ) as session:
        for fence in blocks_of(page):
            marks = marks_of(fence.info)
            if marks.needs_internet or (marks.needs_docker and not has_container_engine()):
                continue
            session.follow(fence)
