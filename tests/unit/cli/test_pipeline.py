"""`hightide pipeline` hands on where the cluster is, refuses what is wrong, and fails in one line."""

import json
from pathlib import Path

import click
import pytest
from hightide.errors import RangeDeletedError
from hightide_cli.command_line.exit_codes import EXIT_FAILED, EXIT_USAGE
from hightide_cli.main import main
from hightide_cli.pipeline import COMMANDS, pipeline
from hightide_spark.pipelines import archive, command
from pyspark.errors import PythonException


@pytest.fixture
def seen(monkeypatch: pytest.MonkeyPatch) -> list[tuple[str, str]]:
    """What a pipeline is given by `hightide`; the pipelines that are there need Spark."""
    found: list[tuple[str, str]] = []

    @command.cluster_options
    @click.command("archive")
    def probe(bootstrap: str, master: str | None, output: str) -> None:
        found.append((bootstrap, output))

    monkeypatch.setattr(archive, "command", probe)
    return found


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (["--bootstrap", "b1:1", "pipeline", "archive", "-o", "json"], ("b1:1", "json")),
        (["-o", "json", "pipeline", "--bootstrap", "b2:2", "archive"], ("b2:2", "json")),
        (["--bootstrap", "b1:1", "pipeline", "archive", "--bootstrap", "b3:3"], ("b3:3", "table")),
        (["pipeline", "archive"], ("from-the-environment:4", "table")),
    ],
)
def test_the_address_and_the_form_may_stand_anywhere(
    seen: list[tuple[str, str]], monkeypatch: pytest.MonkeyPatch, arguments: list[str], told: tuple[str, str]
) -> None:
    monkeypatch.setenv("HIGHTIDE_BOOTSTRAP", "from-the-environment:4")
    assert main(arguments) == 0
    assert seen == [told]


@pytest.mark.parametrize(
    "arguments",
    [
        ["archive"],
        ["archive", "there", "--every", "0"],
        ["archive", "there", "--subscribe", "t", "--compact", "--every", "1"],
        ["archive", "there", "--subscribe", "t", "--option", "maxOffsetsPerTrigger"],
        ["replay", "."],
        ["replay", "not-there", "--to", "t"],
        ["delays", "there"],
        ["delays", "there", "--to", "t", "--window-h", "0"],
        ["audit", "flights"],
    ],
    ids=" ".join,
)
def test_a_wrong_command_line_is_refused_before_spark_starts(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", *arguments]) == EXIT_USAGE
    assert capsys.readouterr().err.startswith("error: ")


def test_an_archive_is_checked_without_spark(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["pipeline", "archive", str(tmp_path), "-o", "json"]) == 0
    assert json.loads(capsys.readouterr().out) == {
        "records": 0,
        "topics": {},
        "files": 0,
        "merged": 0,
        "flaws": [],
    }
    (tmp_path / "notes.txt").write_text("mine")
    assert main(["pipeline", "archive", str(tmp_path)]) == EXIT_FAILED
    assert "notes.txt is no file of an archive" in capsys.readouterr().out


def test_what_cannot_be_replayed_is_told_in_one_line(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "replay", str(tmp_path), "--to", "t"]) == EXIT_FAILED
    assert "holds no such topic" in capsys.readouterr().err


def test_of_what_spark_quotes_the_innermost_sentence_of_ours_is_told() -> None:
    quoted = PythonException(
        "\n  An exception was thrown from the Python worker:\nTraceback (most recent call last):\n"
        '  File "worker.py", line 1, in main\n'
        "hightide.errors.RangeDeletedError: offset 3 is deleted (partition 0)\n"
    )
    assert command.sentence_of(quoted) == "offset 3 is deleted (partition 0)"
    assert command.sentence_of(PythonException("no Java\nat org.apache")) == "no Java"
    fault = (
        "it failed: Traceback (most recent call last):\n  File a\nTypeError: no such thing\n SQLSTATE: 38000"
    )
    assert command.sentence_of(PythonException(fault)) == "it failed: TypeError: no such thing"
    told = command.sentence_of(RangeDeletedError("offset 3 is deleted"))
    assert told is not None
    assert told.startswith("offset 3 is deleted")
    assert command.sentence_of(KeyError("x")) is None


def test_every_pipeline_is_one_that_there_is() -> None:
    context = click.Context(pipeline)
    assert {name: getattr(pipeline.get_command(context, name), "name", None) for name in COMMANDS} == {
        name: name for name in COMMANDS
    }
