"""Fails when the committed stubs are not what the .proto files generate; `make proto-check` runs it."""

import subprocess
import sys
import tempfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
STUBS = ROOT / "clients/python/hightide/v1"
#: The .proto files with their comments, for reflection.
DESCRIPTORS = "descriptors.binpb"


def main() -> int:
    protos = sorted((ROOT / "protos").rglob("*.proto"))
    scripts = Path(sys.executable).parent
    with tempfile.TemporaryDirectory() as fresh:
        Path(fresh, "hightide/v1").mkdir(parents=True)
        subprocess.run(
            [
                *(sys.executable, "-m", "grpc_tools.protoc", "-I", str(ROOT / "protos")),
                f"--plugin=protoc-gen-mypy={scripts / 'protoc-gen-mypy'}",
                f"--plugin=protoc-gen-mypy_grpc={scripts / 'protoc-gen-mypy_grpc'}",
                *(f"--{kind}_out={fresh}" for kind in ("python", "grpc_python", "mypy", "mypy_grpc")),
                *("--include_source_info", f"--descriptor_set_out={Path(fresh, 'hightide/v1', DESCRIPTORS)}"),
                *(str(proto.relative_to(ROOT / "protos")) for proto in protos),
            ],
            check=True,
            stderr=subprocess.DEVNULL,
        )
        generated = {path.name: path.read_bytes() for path in Path(fresh, "hightide/v1").iterdir()}
    committed = {path.name: path.read_bytes() for path in (*STUBS.glob("*_pb2*"), STUBS / DESCRIPTORS)}
    stale = sorted(name for name in generated | committed if generated.get(name) != committed.get(name))
    for name in stale:
        print(f"{STUBS.relative_to(ROOT) / name} is not what the .proto files generate; run `make proto`")
    return 1 if stale else 0


if __name__ == "__main__":
    sys.exit(main())
