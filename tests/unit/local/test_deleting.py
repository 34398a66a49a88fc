"""What deletes a cluster deletes the cluster, and nothing of its user's."""

from pathlib import Path

import pytest
from hightide_cli.main import main
from hightide_local.layout import ClusterLayout, FirstPorts


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    """That of a cluster that is stopped."""
    ClusterLayout.of(tmp_path, brokers=1, controllers=1, first=FirstPorts()).save()
    for name in ("certificates", "data", "logs", "traces", "zookeeper"):
        (tmp_path / name / "below").mkdir(parents=True)
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


def test_the_directory_goes_with_the_last_file_of_the_cluster(directory: Path) -> None:
    assert main(["dev", "down", "--delete", "--directory", str(directory)]) == 0
    assert not directory.exists()
