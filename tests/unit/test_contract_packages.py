"""Every file of the contract names the packages that docs/other-languages.md says, and the same ones."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "other-languages.md").read_text()
PROTOS = sorted((ROOT / "protos").rglob("*.proto"))


@pytest.mark.parametrize(
    ("option", "value", "told"),
    [
        # No import path of another module: all stubs are one package, wherever a module puts them.
        ("go_package", "hightide/v1;hightidev1", "`hightide/v1`, named `hightidev1`"),
        ("java_package", "io.hightide.v1", "`io.hightide.v1`"),
        ("csharp_namespace", "Hightide.V1", "`Hightide.V1`"),
        ("php_namespace", r"Hightide\\V1", r"`Hightide\V1`"),
        ("ruby_package", "Hightide::V1", "`Hightide::V1`"),
    ],
)
def test_stubs_go_into_the_package_that_the_page_names(option: str, value: str, told: str) -> None:
    named = [re.findall(rf'^option {option} = "(.*)";$', path.read_text(), re.MULTILINE) for path in PROTOS]
    assert named == [[value]] * len(PROTOS)
    assert told in PAGE
