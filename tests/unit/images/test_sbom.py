"""What `make sbom` says of an image. Whether it is true is for `make soak` (test_bill_of_materials.py)."""

import importlib.util
import tomllib
from pathlib import Path
from types import ModuleType

import hightide
import pytest

ROOT = Path(__file__).resolve().parents[3]
IMAGES = sorted(path.parent.name for path in ROOT.glob("docker/*/Dockerfile"))


@pytest.fixture(scope="module")
def sbom() -> ModuleType:
    spec = importlib.util.spec_from_file_location("sbom", ROOT / "docker" / "sbom.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("image", IMAGES)
def test_an_image_is_described_by_its_name_its_version_and_what_it_asks_for(
    sbom: ModuleType, image: str
) -> None:
    described = tomllib.loads(sbom.manifest(image))["project"]
    assert (described["name"], described["version"]) == (f"hightide-{image}", hightide.__version__)
    assert described["license"] == "Apache-2.0"
    assert {"grpcio", "protobuf"} <= set(described["dependencies"])


def test_an_image_asks_for_what_its_group_includes_and_for_nothing_of_others(sbom: ModuleType) -> None:
    groups = {
        "image-all": ["grpcio"],
        "image-one": [{"include-group": "image-all"}, "pyarrow"],
        "image-two": [{"include-group": "image-all"}],
    }
    assert sbom.packages_of("one", groups) == ["grpcio", "pyarrow"]
    assert sbom.packages_of("two", groups) == ["grpcio"]


def test_make_writes_one_for_each_image() -> None:
    (line,) = [line for line in (ROOT / "Makefile").read_text().splitlines() if "docker/sbom.py" in line]
    assert all(image in line for image in IMAGES)
