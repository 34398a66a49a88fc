"""Commands that the prose names, outside of blocks, are ones that there are, with these options."""

import re
from collections.abc import Iterator

import click
import pytest
from docs.block_places import name_of
from docs.markdown import ROOT, inline_code_of, tracked_pages
from hightide_cli.main import cli

PAGES = [page for page in tracked_pages() if page == ROOT / "README.md" or page.parts[-2] == "docs"]


def commands() -> Iterator[tuple[str, str]]:
    for page in PAGES:
        for code in inline_code_of(page):
            if code.startswith("hightide "):
                yield name_of(page), code


def faults_of(line: str) -> list[str]:
    """What the command line does not know of it: words that name no command, options that there are not."""
    context = click.Context(cli, info_name="hightide")
    command: click.Command = cli
    faults = []
    for word in line.split()[1:]:
        if re.match("--?[a-z]", word, re.IGNORECASE):
            known = {name for option in command.params for name in option.opts + option.secondary_opts}
            if word.partition("=")[0] not in known:
                faults.append(word)
        elif isinstance(command, click.Group) and re.fullmatch(r"[a-z][a-z-]*", word):
            inner = command.get_command(context, word)
            if inner is None:
                return [*faults, word]
            command = inner
    return faults


@pytest.mark.parametrize(("page", "line"), sorted(set(commands())))
def test_a_command_that_the_prose_names_is_one_that_there_is(page: str, line: str) -> None:
    assert faults_of(line) == []


def test_a_command_that_there_is_not_is_found() -> None:
    assert faults_of("hightide topic create t -p 3") == []
    assert faults_of("hightide topic creat t") == ["creat"]
    assert faults_of("hightide topic create --fast") == ["--fast"]
