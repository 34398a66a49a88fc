"""`make sbom`, for real: it needs a registry of packages, and a minute."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
from packaging.utils import canonicalize_name

ROOT = Path(__file__).resolve().parents[3]
WRITTEN = ROOT / "dist" / "sbom" / "hightide-controller.cdx.json"

pytestmark = [pytest.mark.soak, pytest.mark.timeout(900)]


def test_the_bill_of_an_image_names_what_it_holds_with_versions_licences_and_who_requires_whom() -> None:
    shutil.rmtree(WRITTEN.parent, ignore_errors=True)
    subprocess.run(["make", "sbom", "IMAGE=controller"], cwd=ROOT, check=True)
    bill = json.loads(WRITTEN.read_text())
    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["name"] == "hightide-controller"
    found: dict[str, Any] = {canonicalize_name(each["name"]): each for each in bill["components"]}
    assert {"grpcio", "kazoo", "protobuf", "pydantic"} <= set(found)
    assert not {"pip", "pytest", "pyarrow", "pyspark"} & set(found), "no image of a controller has these"
    lines = (ROOT / "constraints.txt").read_text().splitlines()
    pinned: dict[str, str] = {
        canonicalize_name(name): version for name, version in (line.split("==") for line in lines)
    }
    assert {name: each["version"] for name, each in found.items()} == {name: pinned[name] for name in found}
    assert found["grpcio"]["purl"] == f"pkg:pypi/grpcio@{pinned['grpcio']}"
    assert found["grpcio"]["licenses"]
    requires = {each["ref"]: each.get("dependsOn", []) for each in bill["dependencies"]}
    assert any(each.startswith("grpcio==") for each in requires["root-component"])
    assert any(each.startswith("pydantic") for each in requires[found["pydantic-settings"]["bom-ref"]])
