"""Which blocks of which pages are carried out, and where those that are not carried out here are."""

from pathlib import Path
from typing import Final

from docs.markdown import ROOT, Fence, fences_of, tracked_pages
from docs.notation import PROGRAMS

#: Blocks that would get something from the internet, by page and text, with the reason why that must be.
#: Nobody carries them out: a test must not depend on what others publish today.
FROM_THE_INTERNET: Final[dict[tuple[str, str], str]] = {
    (
        "docs/compose.md",
        "export OTEL_EXPORTER_OTLP_ENDPOINT=http://otel-collector:4317\n"
        "docker compose --profile obs --profile broker up -d",
    ): "the images of the collector and of Jaeger are those of others",
}

#: Sections whose blocks another test carries out: "page#heading" → the test's file.
CARRIED_OUT_ELSEWHERE: Final[dict[str, str]] = {
    "README.md#Try it": "tests/e2e/test_demo.py",
    "README.md#Spark in five minutes": "tests/e2e/test_readme_spark.py",
    "docs/compose.md#Start": "tests/e2e/test_compose.py",
    "docs/compose.md#Break it": "tests/e2e/test_compose.py",
    "docs/compose.md#More brokers": "tests/e2e/test_compose.py",
    "docs/compose.md#Volumes": "tests/e2e/test_compose.py",
    "docs/compose.md#Upgrade": "tests/e2e/test_compose.py",
    "docs/compose.md#Spark": "tests/e2e/test_compose.py",
    **{
        f"docs/spark-cluster.md#{heading}": "tests/spark_versions/test_pages.py"
        for heading in (
            "A cluster to try",
            "py-files",
            "archives",
            "A wheel on each machine",
            "Spark Connect",
        )
    },
    **{
        f"docs/spark-tables.md#{heading}": "tests/spark_versions/test_pages.py"
        for heading in ("Install", "Delta", "From Delta into a topic", "Iceberg")
    },
    "examples/go/README.md#Run it": "tests/e2e/test_examples.py",
    "examples/node/README.md#Run it": "tests/e2e/test_examples.py",
}


def name_of(page: Path) -> str:
    return page.relative_to(ROOT).as_posix()


def pages_with_blocks() -> list[Path]:
    """The pages of docs/, the README, and those of the rooms."""
    return [page for page in tracked_pages() if page.name == "README.md" or page.parts[-2:-1] == ("docs",)]


def blocks_of(page: Path) -> list[Fence]:
    """Its blocks, without those of the sections that another test carries out."""
    return [fence for fence in fences_of(page) if section_of(fence) not in CARRIED_OUT_ELSEWHERE]


def section_of(fence: Fence) -> str:
    return f"{name_of(fence.page)}#{fence.heading}"


def has_programs(page: Path) -> bool:
    return any((fence.info.split() or [""])[0] in PROGRAMS for fence in blocks_of(page))
