"""Wrong arguments are one line and exit code 2; failures are one line and exit code 1; no traceback."""

import json
from pathlib import Path

import click
import pytest
from hightide_cli.command_line.choices import OutputFormat, choices
from hightide_cli.command_line.exit_codes import EXIT_USAGE
from hightide_cli.main import COMMANDS, cli, main
from log_rig import LogRig


def run(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


@pytest.mark.parametrize(
    "arguments",
    [
        ("tpoic",),
        ("topic", "creat"),
        ("topic", "create"),
        ("topic", "create", "t", "--partitions", "many"),
        ("topic", "create", "t", "--config", "no-equals-sign"),
        ("topic", "create", "t", "--assignment", "1,x"),
        ("topic", "produce", "t", "--acks", "2"),
        ("topic", "produce", "t", "--key", "k", "--key-separator", ":"),
        ("topic", "consume", "t", "--from", "yesterday"),
        ("topic", "consume", "t", "--from", "@yesterday"),
        ("topic", "consume", "t", "--from", "latest", "--from-beginning"),
        ("topic", "consume", "t", "--format", "%q"),
        ("topic", "consume", "t", "--max-records", "0"),
        ("topic", "consume", "t", "--group", "g", "--partition", "0"),
        ("topic", "consume", "t", "--group", "g", "--from", "17"),
        ("topic", "consume", "t", "--instance-id", "i"),
        ("topic", "ls", "-o", "xml"),
        ("group", "describe"),
        ("group", "lag"),
        ("group", "lag", "g", "--watch", "--interval", "0"),
        ("group", "delete"),
        ("group", "reset-offsets", "g"),
        ("group", "reset-offsets", "g", "--to-earliest", "--to-latest"),
        ("group", "reset-offsets", "g", "--to-offset", "-1"),
        ("group", "reset-offsets", "g", "--to-time", "yesterday"),
        ("group", "reset-offsets", "g", "--by-duration", "long"),
        ("group", "reset-offsets", "g", "--shift-by", "a few"),
        ("group", "reset-offsets", "g", "--to-latest", "--partition", "1"),
        ("group", "reset-offsets", "g", "--to-latest", "-t", "a", "-t", "b", "--partition", "1"),
        ("topic", "delete"),
        ("topic", "alter", "t"),
        ("topic", "alter", "t", "--set", "retention.ms"),
        ("topic", "add-partitions", "t"),
        ("topic", "add-partitions", "t", "-p", "3", "--assignment", "1,2;"),
        ("topic", "remove-partitions", "t", "-p", "few"),
        ("reassign", "plan"),
        ("reassign", "plan", "--all", "--topic", "t"),
        ("reassign", "plan", "--all", "--brokers", "1-3"),
        ("reassign", "plan", "--all", "-r", "0"),
        ("reassign", "plan", "--decommission", "1", "-r", "2"),
        ("reassign", "apply"),
        ("reassign", "apply", "not-there.json"),
        ("reassign", "apply", "--topic", "t", "--partition", "0"),
        ("reassign", "apply", "--topic", "t", "--partition", "0", "--replicas", "a"),
        ("reassign", "apply", "-t", "t", "-p", "0", "--replicas", "1", "--throttle", "fast"),
        ("reassign", "watch", "--interval", "0"),
        ("reassign", "cancel"),
        ("reassign", "cancel", "--all", "--topic", "t"),
        ("reassign", "cancel", "--all", "--partition", "1"),
        ("reassign", "throttle"),
        ("reassign", "throttle", "0"),
        ("elect", "preferred", "--partition", "1"),
        ("elect", "unclean", "--topic", "t"),
        ("trace", "show", "abc", "--last"),
        ("bench", "produce", "--rounds", "0"),
        ("demo", "--rows", "1"),
    ],
    ids=" ".join,
)
def test_a_wrong_argument_is_one_line_and_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    code, out, err = run(capsys, *arguments)
    assert code == EXIT_USAGE
    assert out == ""
    assert err.startswith("error: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "meant"),
    [(("tpoic", "ls"), "topic"), (("topic", "creat"), "create"), (("pipline",), "pipeline")],
)
def test_a_command_that_is_not_there_is_told_with_the_one_that_was_meant(
    arguments: tuple[str, ...], meant: str, capsys: pytest.CaptureFixture[str]
) -> None:
    """The commands of the first level are loaded when they run, so that click knew none to suggest."""
    assert f"Did you mean '{meant}'?" in run(capsys, *arguments)[2]


@pytest.mark.parametrize("wrong", ["s@bad", "jsn", "yesterday"])
def test_an_o_that_is_neither_a_form_nor_a_position_is_told_of_both(
    capsys: pytest.CaptureFixture[str], wrong: str
) -> None:
    code, output, error = run(capsys, "topic", "consume", "t", "-o", wrong)
    assert (code, output) == (EXIT_USAGE, "")
    assert f"'{wrong}' is neither a form of output (table, json, yaml, wide) nor a position" in error
    assert "earliest, latest, an offset, -N, or @TIME" in error


@pytest.mark.parametrize("kind", ["topic_creation", "topic-creation"])
def test_a_kind_of_traces_may_be_written_with_dashes(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, kind: str
) -> None:
    assert run(capsys, "trace", "ls", "--kind", kind, "--directory", str(tmp_path))[0] == 0


def test_what_cannot_be_done_is_one_line_with_the_next_step(
    capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    code, out, err = run(capsys, "trace", "show", "--directory", str(tmp_path))
    assert (code, out) == (1, "")
    assert err == "error: no failover was traced yet; `hightide demo` makes two\n"


@pytest.mark.parametrize("command", ["ls", "show"])
def test_traces_of_a_cluster_that_this_machine_has_not_started_are_not_those_of_another(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path, command: str
) -> None:
    """`trace show --bootstrap` showed the last failover of a local cluster."""
    monkeypatch.delenv("HIGHTIDE_TRACE_DIR", raising=False)
    code, out, err = run(capsys, "trace", command, "--bootstrap", "elsewhere:9092")
    assert (code, out) == (1, "")
    assert err.startswith("error: the cluster at elsewhere:9092 is none that this machine has started; give")
    monkeypatch.setenv("HIGHTIDE_TRACE_DIR", str(tmp_path))
    assert "elsewhere" not in run(capsys, "trace", command, "--bootstrap", "elsewhere:9092")[2]


@pytest.mark.parametrize("command", ["dump-log", "dump-index"])
def test_a_directory_without_logs_is_not_one_without_damage(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, command: str
) -> None:
    code, out, err = run(capsys, command, str(tmp_path))
    assert (code, out) == (1, "")
    assert err.startswith(f"error: {tmp_path}: no")
    assert err.endswith("is here or below\n")


@pytest.mark.parametrize("at", [7, 15, 20, 90], ids=["base offset", "leader epoch", "CRC", "body"])
def test_one_flipped_bit_of_a_log_on_disk_is_told_and_fails_the_command(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, at: int
) -> None:
    """A base offset and a leader epoch are outside of the CRC: the log was called whole. Of two epochs that
    do not fit together nobody can say which is wrong."""
    rig = LogRig(tmp_path)
    rig.fill(3)
    rig.close()
    (segment,) = rig.segments()
    assert run(capsys, "dump-log", str(rig.log_directory))[0] == 0
    content = bytearray(segment.read_bytes())
    second = len(content) // 3
    content[second + at] ^= 1
    segment.write_bytes(content)
    code, out, err = run(capsys, "dump-log", str(rig.log_directory))
    assert code == 1
    assert any(f"{segment} is damaged at position {each}: " in out for each in (second, 2 * second))
    assert err == f"error: 1 damaged: {segment}\n"


def test_every_command_of_the_table_is_there() -> None:
    with click.Context(cli) as ctx:
        for name in COMMANDS:
            command = cli.get_command(ctx, name)
            assert command is not None
            assert command.name == name


def test_the_innermost_choice_of_output_and_address_counts() -> None:
    @click.command()
    @click.pass_context
    def probe(ctx: click.Context) -> None:
        chosen = choices(ctx)
        click.echo(json.dumps([chosen.bootstrap, chosen.output is OutputFormat.JSON]))

    from click.testing import CliRunner
    from hightide_cli.command_line.options import common_options

    @click.group()
    def root() -> None:
        """Stand for the whole command line."""

    root.add_command(common_options(probe))
    runner = CliRunner(env={"HIGHTIDE_BOOTSTRAP": "environment:1"})
    common_options(root)

    def outcome(*arguments: str) -> object:
        return json.loads(runner.invoke(root, arguments, catch_exceptions=False).output)

    assert outcome("probe") == ["environment:1", False]
    assert outcome("--bootstrap", "outer:1", "probe") == ["outer:1", False]
    assert outcome("--bootstrap", "outer:1", "probe", "--bootstrap", "inner:1") == ["inner:1", False]
    assert outcome("-o", "json", "probe") == ["environment:1", True]
    assert outcome("-o", "json", "probe", "-o", "table") == ["environment:1", False]
