"""Whole scenarios as text: `pytest tests/sim/test_transcripts.py --rewrite` writes the outcomes anew.

Look at the diff afterwards, and keep it only if you understand it.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from sim.transcript import Transcript

TESTDATA = sorted((Path(__file__).parent / "testdata").glob("*.txt"))


@pytest.mark.parametrize("path", TESTDATA, ids=[path.stem for path in TESTDATA])
def test_transcript(path: Path, pytestconfig: pytest.Config) -> None:
    written = path.read_text()
    now = Transcript().run(written)
    if pytestconfig.getoption("--rewrite", default=False):
        path.write_text(now)
        return
    assert now == written


def test_there_are_transcripts() -> None:
    assert {path.stem for path in TESTDATA} >= {"kip101", "kip279", "kip320"}
