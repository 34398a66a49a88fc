"""What docs/reference/ says is what the code says."""

import re
import subprocess
import sys

from docs.markdown import ROOT, inline_code_of

REFERENCE = ROOT / "docs" / "reference" / "metrics.md"
METRIC = re.compile(
    r"\b(?:(?:hightide_(?:broker|controller|coordinator|zookeeper)|rpc_server)_|hightide\.\w+\.)[\w.]+"
)


def test_the_references_are_fresh() -> None:
    """`make docs` mends it."""
    run = subprocess.run(
        [sys.executable, str(ROOT / "docs" / "generate.py"), "--check"],
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert (run.returncode, run.stdout + run.stderr) == (0, "")


def test_metrics_that_the_guides_name_are_declared() -> None:
    declared = set(re.findall(r"`((?:hightide|rpc|process)[._][\w.]+)`", REFERENCE.read_text()))
    named = {
        name
        for page in (ROOT / "docs").glob("*.md")
        for code in inline_code_of(page)
        for name in METRIC.findall(code)
    }
    assert len(named) > 10
    assert {name for name in named if not name.startswith("hightide.v1")} - declared == set()


def test_every_state_of_a_table_is_in_the_diagram_above_it() -> None:
    sections = (REFERENCE.parent / "states.md").read_text().split("\n## ")[1:]
    assert len(sections) == 5
    for section in sections:
        drawn = set(re.findall(r"^    (?:\[\*\]|[A-Z_]+) --> ([A-Z_]+)$", section, re.MULTILINE))
        told = set(re.findall(r"^\| `([A-Z_]+)` \|", section, re.MULTILINE))
        assert len(told) >= 3
        assert drawn == told, section.splitlines()[0]
