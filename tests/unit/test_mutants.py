"""The table of mutants holds for the tree as it is. `make mutants` runs them; here each only has to apply."""

from __future__ import annotations

import ast
from collections import Counter
from pathlib import Path

import pytest
from mutants.table import ROOT, Mutant, Stale, read_table


@pytest.mark.parametrize("mutant", read_table(), ids=lambda mutant: mutant.name)
def test_each_mutant_applies_and_names_tests_that_are_there(mutant: Mutant) -> None:
    # A mutant that does not compile would be killed by any test.
    ast.parse(mutant.put_into(ROOT))
    assert mutant.becomes != mutant.text
    assert mutant.killed_by
    for node_id in mutant.killed_by:
        path, _, test = node_id.partition("::")
        assert (ROOT / path).exists(), f"{path} is not there"
        assert not test or f"def {test.partition('[')[0]}(" in (ROOT / path).read_text(), node_id


def test_no_two_mutants_have_one_name() -> None:
    counts = Counter(mutant.name for mutant in read_table())
    assert [name for name, count in counts.items() if count > 1] == []


def test_no_two_mutants_are_the_same_bug() -> None:
    counts = Counter((mutant.file, mutant.text, mutant.becomes) for mutant in read_table())
    assert [bug for bug, count in counts.items() if count > 1] == []


@pytest.mark.parametrize("source", ["a = 2\n", "a = 1\nb = 1\n"])
def test_a_mutant_whose_text_does_not_stand_there_exactly_once_is_stale(tmp_path: Path, source: str) -> None:
    mutant = Mutant("sdk", "one", "code.py", "= 1", "= 3", "One is one.", ("tests/unit",))
    with pytest.raises(Stale, match=r"code\.py"):
        mutant.put_into(tmp_path)
    (tmp_path / "code.py").write_text("a = 1\n")
    assert mutant.put_into(tmp_path) == "a = 3\n"
    (tmp_path / "code.py").write_text(source)
    with pytest.raises(Stale, match=f"stands {source.count('= 1')} times"):
        mutant.put_into(tmp_path)
