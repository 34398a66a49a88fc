"""What the user can act on is a sentence; a fault of the program stays a traceback."""

import pytest
from hightide.errors import UnknownTopicError
from hightide_bench.loads.load_worker import LoadFailedError, LoadWorker
from hightide_cli.command_line.exit_codes import EXIT_UNREACHABLE
from hightide_cli.command_line.failures import sentence_of
from hightide_cli.main import main
from hightide_local.errors import ClusterError


def test_errors_for_the_user_are_told_as_they_are() -> None:
    assert sentence_of(ClusterError("no Java on this machine")) == "no Java on this machine"
    told = sentence_of(UnknownTopicError("topic nowhere does not exist"))
    assert told is not None
    assert told.startswith("topic nowhere does not exist. `hightide topic ls`")


@pytest.mark.parametrize("line", ["topic ls", "broker ls", "group describe g"])
def test_that_nobody_answers_is_an_exit_code_of_its_own(
    line: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("hightide_cli.command_line.connections.ADMIN_TIMEOUT_MS", 300)
    assert main([*line.split(), "--bootstrap", "127.0.0.1:1"]) == EXIT_UNREACHABLE
    assert capsys.readouterr().err.startswith("error: ")


def test_a_missing_file_is_told_by_its_name() -> None:
    with pytest.raises(OSError) as caught:
        open("does-not-exist")  # noqa: SIM115 - it cannot be opened
    assert sentence_of(caught.value) == "does-not-exist: No such file or directory"


def test_a_missing_package_is_told_with_the_way_to_get_it() -> None:
    told = sentence_of(ModuleNotFoundError("No module named 'psutil'", name="psutil"))
    assert told == "this command needs the package psutil: pip install 'hightide[local]'"


def test_a_fault_of_the_program_is_nothing_for_the_user() -> None:
    assert sentence_of(KeyError("x")) is None
    assert sentence_of(AssertionError("must hold")) is None


def test_a_load_that_fails_is_told_by_its_last_line() -> None:
    with (
        LoadWorker("hightide_bench.loads.consume_load", {}) as worker,
        pytest.raises(LoadFailedError, match="KeyError"),
    ):
        worker.result()


def test_what_an_error_quotes_does_not_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--context", "x\x9b2J", "topic", "ls"]) == 1
    assert capsys.readouterr().err.rstrip("\n").isprintable()
