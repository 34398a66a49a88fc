"""The demo deletes the content of its directory, and so takes no directory of somebody else."""

from pathlib import Path

import pytest
from hightide_demo.run import DemoDirectoryError, own_directory


def test_the_demo_refuses_a_directory_with_files_that_are_not_its_own(tmp_path: Path) -> None:
    directory = tmp_path / "documents"
    directory.mkdir()
    (directory / "letter.txt").touch()
    with pytest.raises(DemoDirectoryError, match="--directory"), own_directory(directory):
        pytest.fail("the demo would delete it now")


def test_a_later_demo_takes_the_directory_of_an_earlier_one(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with own_directory(directory):
        (directory / "logs").mkdir(parents=True)
    with own_directory(directory):
        assert (directory / "logs").is_dir()


def test_two_demos_do_not_share_a_directory(tmp_path: Path) -> None:
    directory = tmp_path / "demo"
    with (
        own_directory(directory),
        pytest.raises(DemoDirectoryError, match="already"),
        own_directory(directory),
    ):
        pytest.fail("the second demo would delete the data of the first")
