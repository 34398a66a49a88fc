"""What deletes a cluster deletes the cluster, and nothing of its user's."""

from pathlib import Path

import pytest
from hightide_cli.main import main
from hightide_local.layout import ClusterLayout, FirstPorts


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """That of a cluster that is stopped."""
    ClusterLayout.of(tmp_path, brokers=1, controllers=1, first=FirstPorts()).save()
    for name in ("data/broker-1", "data/broker-1-2", "zookeeper/data"):
        (tmp_path / name / "below").mkdir(parents=True)
    for name in (
        *("certificates/ca.crt", "certificates/broker-1.key", "certificates/client-local.crt"),
        *("logs/broker-1.log", "logs/zookeeper.log", "traces/controller-1.jsonl", "traces/broker-1.metrics"),
        *("zookeeper/zoo.cfg", "zookeeper/key_store.pem"),
    ):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).touch()
    return tmp_path


def test_what_was_in_the_directory_besides_the_cluster_stays(
    directory: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """`dev up --directory .` in the directory of a project, and the project was gone."""
    own = directory / "thesis.tex"
    own.write_text("all my work")
    assert main(["dev", "down", "--delete", "--directory", str(directory)]) == 0
    assert list(directory.iterdir()) == [own]
    assert capsys.readouterr().out == "nothing was running\ndata, logs and traces are deleted\n"


OWN = (
    *("certificates/my.crt", "data/measured.csv", "data/brokers.csv", "logs/build.log", "traces/run.jsonl"),
    *("data/broker.csv", "logs/controller.log", "zookeeper/README"),
)


@pytest.mark.parametrize("name", OWN)
def test_what_was_in_a_folder_of_the_same_name_stays(directory: Path, name: str) -> None:
    """A project has its own `data` and `logs`."""
    own = directory / name
    own.write_text("all my work")
    assert main(["dev", "down", "--delete", "--directory", str(directory)]) == 0
    assert [path for path in directory.rglob("*") if path.is_file()] == [own]
    assert list(directory.iterdir()) == [own.parent]


def test_the_directory_goes_with_the_last_file_of_the_cluster(directory: Path) -> None:
    assert main(["dev", "down", "--delete", "--directory", str(directory)]) == 0
    assert not directory.exists()
