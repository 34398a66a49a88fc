"""What a command line about a topic means, before anybody is asked."""

import os
from pathlib import Path

import pytest
from hightide_cli.main import main
from unit.cli.answering_server import AnsweringServer

NOBODY = ("--bootstrap", "127.0.0.1:1")


@pytest.mark.parametrize("option", ["-k", "-K", "-H"])
def test_a_key_a_separator_and_a_header_are_bytes_as_the_shell_gives_them(
    option: str, tmp_path: Path
) -> None:
    """What is no UTF-8 ended in a traceback."""
    lines = tmp_path / "none"
    lines.touch()
    words = ("topic", "produce", "t", str(lines), option, os.fsdecode(b"n=\xff"))
    assert main([*words, "--bootstrap", AnsweringServer().address]) == 0


@pytest.mark.parametrize(
    ("words", "sentence"),
    [
        (("create", "t", "-p", "6", "--assignment", "1,2"), "--assignment is for 1 partition, and not for 6"),
        (("create", "t", "-r", "3", "--assignment", "1,2:2,1"), "--assignment is not for 3 replicas"),
        (("produce", "t", "-K", ""), "the separator is empty"),
        (("consume", "t", "-g", "g", "-o", "e@-1h"), "give either --group or -o e@TIME"),
        (("consume", "t", "-g", "g", "--until", "9"), "give either --group or --until"),
    ],
)
def test_what_cannot_be_meant_is_said(
    words: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["topic", *words, *NOBODY]) == 2
    assert sentence in capsys.readouterr().err
