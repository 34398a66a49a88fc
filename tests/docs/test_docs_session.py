"""The session that carries out a page's blocks: what it keeps, and that it does not let errors pass."""

import itertools
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from docs.markdown import fences_of
from docs.session import BlockError, Session
from hightide_local.histories.waiting import wait_until
from leftovers import is_gone

Follow = Callable[[str], list[str]]


@pytest.fixture
def follow(tmp_path: Path) -> Follow:
    """Carries out the blocks of a page, and tells what each printed."""
    numbers = itertools.count()

    def of(text: str) -> list[str]:
        folder = tmp_path / str(next(numbers))
        folder.mkdir()
        page = folder / "page.md"
        page.write_text(text)
        printed = []
        with Session(folder / "session", os.environ, block_s=60) as session:
            for fence in fences_of(page):
                outcome = session.follow(fence)
                if outcome is not None:
                    printed.append(outcome.output)
        return printed

    return of


def block(info: str, text: str) -> str:
    return f"```{info}\n{text}\n```\n\n"


def test_a_shell_keeps_variables_functions_and_the_directory(follow: Follow) -> None:
    page = block("console", "mkdir here; cd here; name=value; greet() { echo hello $1; }")
    assert follow(page + block("console", 'pwd; greet "$name"'))[1].split()[-2:] == ["hello", "value"]


def test_python_blocks_are_one_program_in_the_shells_directory(follow: Follow) -> None:
    page = block("console", "mkdir here; cd here; export COLOUR=blue")
    page += block("python", "import os\nx = 6") + block(
        "python", "print(x * 7, os.getcwd()[-5:], os.environ['COLOUR'])"
    )
    assert follow(page)[2] == "42 /here blue\n"


@pytest.mark.parametrize(
    "wrong", ["false", "echo a\nfalse\necho b", "false | cat", "no-such-command", "exit 3"]
)
def test_a_wrong_command_fails_the_page(follow: Follow, wrong: str) -> None:
    with pytest.raises(BlockError, match=r"page\.md:1 ended with exit code"):
        follow(block("console", wrong))


def test_a_wrong_program_fails_the_page_and_names_the_line(follow: Follow) -> None:
    with pytest.raises(BlockError, match=r'File "page.md", line 3'):
        follow(block("python", "x = 1\nx / 0"))


def test_an_exit_code_that_is_announced_must_come(follow: Follow) -> None:
    assert follow(block("console exit=3", "echo no; exit 3") + block("console", "echo on")) == [
        "no\n",
        "on\n",
    ]
    with pytest.raises(BlockError, match="ended with exit code 0, not 3"):
        follow(block("console exit=3", "true"))


def test_what_would_go_on_for_ever_is_interrupted(follow: Follow) -> None:
    page = block(
        "console timeout=5",
        "echo begun; trap 'echo interrupted; exit' INT; while :; do read -t 9 <> <(:) || :; done",
    )
    assert follow(page)[0].split() == ["begun", "interrupted"]


def test_what_ends_wrongly_before_it_is_interrupted_fails_the_page(follow: Follow) -> None:
    with pytest.raises(BlockError, match="ended with exit code 1"):
        follow(block("console timeout=50", "false"))


def test_shown_output_is_compared(follow: Follow) -> None:
    page = block("console", "echo one 1; echo two") + block("text output", "one …\ntwo")
    assert follow(page) == ["one 1\ntwo\n"]
    with pytest.raises(BlockError, match="expects"):
        follow(page + block("text output", "one …"))


def test_a_file_of_the_page_is_there_for_its_blocks(follow: Follow) -> None:
    assert follow(block("json file=plan.json", '{"a": 1}') + block("console", "cat plan.json")) == [
        '{"a": 1}\n'
    ]


def test_nothing_that_a_page_starts_outlives_it(follow: Follow) -> None:
    runs_on = block("console", "cat 0<> <(:) & echo $!") + block("console", "kill -0 $!")
    pid = int(follow(runs_on)[0])
    wait_until(f"{pid} is gone", lambda: is_gone(pid), 30)
