"""Two benchmarks that start clusters do not take each other's files away."""

from pathlib import Path

import pytest
from hightide_bench.measuring.bench_folder import bench_folder
from hightide_local.errors import ClusterError


@pytest.fixture(autouse=True)
def _own_state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))


def test_a_second_benchmark_is_told_of_the_first_and_leaves_its_files() -> None:
    with bench_folder() as directory:
        (directory / "log").touch()
        with pytest.raises(ClusterError, match=r"another benchmark .* --bootstrap"), bench_folder():
            pytest.fail("both have it")
        assert (directory / "log").exists()


def test_the_next_benchmark_begins_with_an_empty_folder() -> None:
    with bench_folder() as directory:
        (directory / "log").touch()
    with bench_folder() as directory:
        assert not list(directory.iterdir())
