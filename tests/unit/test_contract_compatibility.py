"""Changes of the contract that clients of the last release would notice are refused (`buf breaking`)."""

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
BUF = str(Path(sys.executable).parent / "buf")
RELEASED = str(ROOT / "protos" / "released.binpb")


def rules_broken_by(directory: Path) -> set[str]:
    """The rules of `buf breaking` that the contract in a directory breaks; none where it may be released."""
    command = [BUF, "breaking", "--against", RELEASED, "--error-format", "json"]
    done = subprocess.run(command, cwd=directory, capture_output=True, text=True, timeout=60)
    rules = {json.loads(line)["type"] for line in done.stdout.splitlines()}
    assert done.returncode == (100 if rules else 0), done.stderr
    return rules


@pytest.fixture
def contract(tmp_path: Path) -> Path:
    """A copy of the contract that a test may change."""
    shutil.copy(ROOT / "buf.yaml", tmp_path)
    shutil.copytree(ROOT / "protos", tmp_path / "protos")
    return tmp_path


def change(contract: Path, file: str, old: str, new: str) -> None:
    path = contract / "protos" / "hightide" / "v1" / file
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def test_the_contract_understands_the_clients_of_the_last_release() -> None:
    assert rules_broken_by(ROOT) == set()


@pytest.mark.parametrize(
    ("file", "old", "new", "rule"),
    [
        ("metadata.proto", "  string host = 2;\n", "", "FIELD_NO_DELETE_UNLESS_NUMBER_RESERVED"),
        ("metadata.proto", "string host = 2;", "bytes host = 2;", "FIELD_WIRE_JSON_COMPATIBLE_TYPE"),
        (
            "errors.proto",
            "ERROR_CODE_DISK_FULL = 101;",
            "ERROR_CODE_DISK_FULL = 199;",
            "ENUM_VALUE_NO_DELETE_UNLESS_NUMBER_RESERVED",
        ),
        ("broker_service.proto", "rpc FetchRecords(", "rpc ReadRecords(", "RPC_NO_DELETE"),
        (
            "server_service.proto",
            "service ServerService",
            "service ProgramService",
            "PACKAGE_SERVICE_NO_DELETE",
        ),
    ],
)
def test_a_change_that_breaks_these_clients_is_refused(
    contract: Path, file: str, old: str, new: str, rule: str
) -> None:
    change(contract, file, old, new)
    assert rule in rules_broken_by(contract)


def test_what_is_new_breaks_nobody(contract: Path) -> None:
    change(contract, "metadata.proto", "  int32 port = 3;\n", "  int32 port = 3;\n  string zone = 77;\n")
    assert rules_broken_by(contract) == set()
