"""What others wrote into ZooKeeper is shown as text, and steers no terminal."""

from dataclasses import replace

import click
import pytest
from hightide_cli.main import main
from hightide_cli.printing.rendering import printable
from hightide_cli.zk.znode_reader import Znode, _checked
from hightide_cli.zk.znode_text import beginning, cut_line, tree_lines, value_text, znode_document


def znode(path: str, depth: int = 0, data: bytes = b"", *, is_ephemeral: bool = False) -> Znode:
    return Znode(path, depth, data, len(data), 3, 0x10, 0x11, is_ephemeral, 0)


def test_a_tree_is_indented_and_marks_what_goes_with_its_process() -> None:
    znodes = [
        znode("/brokers"),
        znode("/brokers/ids", 1),
        znode("/brokers/ids/1", 2, b'{"a": 1}', is_ephemeral=True),
    ]
    assert list(tree_lines(znodes, with_values=True)) == ["/brokers", "  ids", '    1 (ephemeral)  {"a": 1}']
    assert list(tree_lines(znodes, with_values=False))[2] == "    1 (ephemeral)"


def test_nothing_of_it_steers_a_terminal() -> None:
    assert printable("a\x1b[2Jb\x07\u202e") == "a\\x1b[2Jb\\x07\\u202e"
    assert "\x1b" not in value_text(b'"\x1b[2J" is no json')
    assert "\x1b" not in value_text(b'"\\u001b[2J"')
    assert "\x1b" not in beginning(b"\x1b[2J")


def test_values_are_json_text_or_hexadecimal() -> None:
    assert value_text(b'{"leader":1}') == '{\n  "leader": 1\n}'
    assert value_text("zwölf\nzeilen".encode()) == "zwölf\nzeilen"
    assert value_text(b"\xff\x00") == "ff 00"
    assert value_text(b"[" * 100_000).startswith("[[[")
    assert len(beginning(b"x" * 10_000)) == 100


def test_a_value_that_is_not_shown_to_its_end_is_said_to_go_on() -> None:
    """It looked whole, and as if its JSON were damaged."""
    assert cut_line(znode("/a", data=b"{}")) is None
    cut = replace(znode("/a", data=b"x" * 65_536), size_bytes=70_000)
    assert cut_line(cut) == "only the first 65,536 of 70,000 bytes are shown"


def test_a_znode_is_a_document_with_its_value_where_that_is_wanted() -> None:
    assert znode_document(znode("/a", data=b"\xff"), with_value=True)["data_base64"] == "/w=="
    assert "data" not in znode_document(znode("/a", data=b"a"), with_value=False)


@pytest.mark.parametrize("path", ["", "a", "/a/", "//", "/a/../b", "/./a", "/a\x1b", "/" + "a" * 2_000])
def test_a_path_is_checked_before_anybody_is_asked(path: str) -> None:
    with pytest.raises(click.BadParameter):
        _checked(path)


def test_an_address_is_needed(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("HIGHTIDE_ZOOKEEPER", raising=False)
    assert main(["zk", "tree", "--bootstrap", "h:1"]) == 2
    assert "give the address of ZooKeeper with --zookeeper" in capsys.readouterr().err


def test_who_does_not_answer_is_named_in_time(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zk", "get", "/", "--zookeeper", "127.0.0.1:1", "--timeout", "0.5"]) == 1
    assert capsys.readouterr().err == "error: no ZooKeeper answers at 127.0.0.1:1 within 0.5 s\n"
