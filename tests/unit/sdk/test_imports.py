"""What an import pulls in, and what it does not."""

import subprocess
import sys

import hightide
import pytest


def modules_after(statement: str) -> set[str]:
    code = f"import sys; {statement}; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    "statement", ["import hightide", "import hightide.batch.header", "import hightide.errors"]
)
def test_neither_grpc_nor_arrow_is_loaded_before_it_is_used(statement: str) -> None:
    assert not modules_after(statement) & {
        "grpc",
        "pyarrow",
        "asyncio",
        "hightide.producer",
        "hightide.transport.transport",
    }


def test_records_load_nothing_else() -> None:
    assert not modules_after("from hightide import Record") & {"grpc", "pyarrow", "google.protobuf"}


def test_clients_do_not_load_pandas() -> None:
    """Arrow looks for it when it makes its first array of Python's objects, which takes half a second."""
    assert "pandas" not in modules_after("from hightide import Consumer, Producer, Admin")


@pytest.mark.parametrize("name", hightide.__all__)
def test_every_name_is_there(name: str) -> None:
    assert getattr(hightide, name).__name__ == name
    assert name in dir(hightide)


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="'hightide' has no attribute 'Producr'"):
        _ = hightide.Producr
