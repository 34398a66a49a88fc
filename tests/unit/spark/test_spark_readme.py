"""The room's README has all options, with their defaults, and no others. Those under names of Kafka have a
table in docs/spark.md."""

import re
from pathlib import Path
from types import ModuleType

import pytest
from hightide_spark.core import sink_options, source_options
from hightide_spark.core.kafka_options import PREFIX
from hightide_spark.core.option_table import Option
from hightide_spark.core.sink_options import write_options
from hightide_spark.core.source_options import batch_options, stream_options
from hightide_spark.errors import UnknownOptionError

README = Path(__file__).resolve().parents[3] / "clients/spark/README.md"
#: Defaults that the code has in another form than a user writes them.
IN_WORDS = {
    "bootstrap.servers": "needed",
    "startingOffsets": "earliest, latest for streams",
    "endingOffsets": "latest",
    "maxTriggerDelay": "15m",
}


def rows(heading: str) -> list[tuple[str, str, str]]:
    """Name, default and kind of query of each row of the table with this heading."""
    (table,) = re.findall(rf"^\| {heading} \|.*\n\| ---.*\n((?:\|.*\n)+)", README.read_text(), re.MULTILINE)
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return [
        (name, default, kind)
        for names, default, kind, *_ in cells
        for name in re.findall(r"`([^`]+)`", names)
    ]


def options_of(module: ModuleType) -> dict[str, str]:
    """The options that a module knows, with their defaults in words."""
    found = [
        option
        for each in vars(module).values()
        for option in (each if isinstance(each, tuple) else (each,))
        if isinstance(option, Option)
    ]
    return {
        option.name: IN_WORDS.get(option.name, in_words(option.default))
        for option in found
        if not option.name.startswith(PREFIX)
    }


def in_words(default: object) -> str:
    return "" if default is None else str(default).lower()


@pytest.mark.parametrize(
    ("heading", "module"), [("option of reads", source_options), ("option of writes", sink_options)]
)
def test_the_readme_has_every_option_with_its_default(heading: str, module: ModuleType) -> None:
    assert {name: default for name, default, _ in rows(heading)} == options_of(module)


@pytest.mark.parametrize(("name", "kind"), [(name, kind) for name, _, kind in rows("option of reads")])
def test_an_option_of_reads_is_for_the_queries_that_the_readme_says(name: str, kind: str) -> None:
    # Any text will do: an option that is not for this kind of query is refused before it is read.
    for read, its_kind in ((batch_options, "batch"), (stream_options, "stream")):
        if kind not in ("both", its_kind):
            with pytest.raises(UnknownOptionError, match="has no meaning"):
                read({"bootstrap.servers": "b:1", "subscribe": "t", name: "1"})


def test_a_stream_writes_without_the_options_of_a_transaction() -> None:
    for name in (name for name, _, kind in rows("option of writes") if kind == "batch"):
        with pytest.raises(UnknownOptionError, match="has no meaning"):
            write_options({"bootstrap.servers": "b:1", name: "1"}, is_streaming=True, overwrite=False)
