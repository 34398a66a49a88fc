"""A change is a command of the CLI: what forms make of it, and that nothing is done that was not shown."""

import asyncio
import shlex
from collections.abc import Iterator
from pathlib import Path

import click
import pytest
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_cli.main import cli
from hightide_console.app import application
from hightide_console.changes.catalogue import CHANGES, change_named, changes_of
from hightide_console.changes.change import Change, ChangeError, Command, checked
from hightide_console.changes.pending import PENDING_MAX, PendingChanges, Shown
from hightide_console.changes.running import OUTPUT_MAX, CommandRunner, Outcome
from hightide_console.console import Console
from starlette.testclient import TestClient
from unit.console.canned_cluster import ADDRESS, canned_console

FILLED = {
    "create-topic": {
        "name": "orders",
        "partitions": "6",
        "replicas": "3",
        "settings": "retention.ms=1000\nflush=fsync",
    },
    "produce": {"topic": "orders", "key": "k", "value": "a\nb", "headers": "source=shop", "partition": "1"},
    "set": {"topic": "orders", "settings": "retention.ms=1000", "reset": "segment.ms, flush"},
    "add-partitions": {"topic": "orders", "partitions": "12"},
    "elect": {"topic": "orders", "partition": "1"},
    "move": {"topic": "orders", "partition": "1", "replicas": "1,2,3", "throttle": "10MB"},
    "elect-unclean": {"topic": "orders", "partition": "1"},
    "delete-topic": {"topic": "orders"},
    "reset-offsets": {"group": "g", "target": "shift-by", "at": "-10", "topic": "orders", "partition": "1"},
    "delete-group": {"group": "g"},
    "cancel-moves": {"topic": "orders", "partition": "1"},
    "throttle": {"rate": "10MB"},
    "elect-all": {},
    "drain": {"broker": "2"},
    "resign-controller": {},
    "resign-coordinator": {"coordinator": "1"},
}


def change(name: str) -> Change:
    found = change_named(name)
    assert found is not None, name
    return found


def words(kind: str, **said: str) -> str:
    each = change(kind)
    return shlex.join(each.done(checked(each, said)).words)


def parsed(command: Command) -> None:
    """Let click read it as it would, up to the work. Raises click.UsageError."""
    found: click.Command = cli
    left = list(command.words)
    context = click.Context(found)
    while isinstance(found, click.Group):
        child = found.get_command(context, left.pop(0))
        assert child is not None, command.words
        found, context = child, click.Context(child, parent=context)
    found.parse_args(context, left)


def test_every_change_has_an_example_here() -> None:
    assert set(FILLED) == {each.name for each in CHANGES}


@pytest.mark.parametrize("name", FILLED)
def test_what_is_tried_and_what_is_done_are_commands_of_the_cli(name: str) -> None:
    each = change(name)
    values = checked(each, FILLED[name])
    parsed(each.tried(values))
    parsed(each.done(values))


@pytest.mark.parametrize("name", FILLED)
def test_what_is_tried_changes_nothing(name: str) -> None:
    each = change(name)
    tried = each.tried(checked(each, FILLED[name])).words
    assert "--dry-run" in tried or tried[:2] in (("topic", "offsets"), ("reassign", "ls"))
    assert not {"--yes", "--execute"} & set(tried)


def test_changes_are_reached_from_the_page_of_what_they_change() -> None:
    assert [each.name for each in changes_of("group")] == ["reset-offsets", "delete-group"]
    assert {each.place for each in CHANGES} == {"overview", "topics", "topic", "group", "failovers"}


def test_forms_become_words() -> None:
    assert words("create-topic", **FILLED["create-topic"]) == (
        "topic create orders --partitions=6 --replicas=3 --config=retention.ms=1000 --config=flush=fsync"
    )
    assert (
        words("set", **FILLED["set"])
        == "config set orders retention.ms=1000 --reset=segment.ms --reset=flush"
    )
    assert words("delete-topic", topic="orders") == "topic delete orders --yes"
    assert words("cancel-moves") == "reassign cancel --all"
    assert (
        words("reset-offsets", group="g", target="to-latest") == "group reset-offsets g --to-latest --execute"
    )


def test_a_record_goes_by_the_input_of_the_command_whatever_is_in_it() -> None:
    each = change("produce")
    command = each.done(checked(each, {"topic": "orders", "value": "it's\r\n$(rm)", "key": '"'}))
    assert command.stdin == '{"value": "it\'s\\n$(rm)", "key": "\\""}\n'
    runner = CommandRunner("127.0.0.1:9091", ClientArguments())
    assert shlex.split(runner.text(command)) == [
        *("printf", "%s\\n", command.stdin.rstrip("\n"), "|"),
        *("hightide", "topic", "produce", "orders", "--json", "--bootstrap=127.0.0.1:9091"),
    ]
    tombstone = each.done(checked(each, {"topic": "orders", "key": "k", "tombstone": "yes", "value": "x"}))
    assert tombstone.stdin == '{"value": null, "key": "k"}\n'


@pytest.mark.parametrize(
    ("name", "said", "sentence"),
    [
        ("create-topic", {"name": "--help"}, "begins with a dash"),
        ("create-topic", {"name": "a", "partitions": "many"}, "no whole number"),
        ("create-topic", {"name": "a", "settings": "--assignment=1"}, "not NAME=VALUE"),
        ("create-topic", {"name": "a\nb"}, "no command line"),
        ("create-topic", {"name": "a\0"}, "no command line"),
        ("create-topic", {"name": ""}, "missing"),
        ("create-topic", {"name": "a" * 1001}, "is the most"),
        ("set", {"topic": "orders"}, "NAME=VALUE"),
        ("reset-offsets", {"group": "g", "target": "execute"}, "not among the choices"),
        ("reset-offsets", {"group": "g", "target": "to-offset"}, "needs a value"),
        ("reset-offsets", {"group": "g", "target": "to-latest", "at": "1"}, "takes no value"),
        ("reset-offsets", {"group": "g", "partition": "1"}, "of which topic"),
        ("cancel-moves", {"partition": "1"}, "of which topic"),
        ("drain", {"broker": "-1"}, "no whole number"),
        ("throttle", {"rate": "--all"}, "begins with a dash"),
        ("produce", {"topic": "orders", "value": "x" * 70_000}, "is the most"),
    ],
)
def test_what_makes_no_command_is_said(name: str, said: dict[str, str], sentence: str) -> None:
    each = change(name)
    with pytest.raises(ChangeError, match=sentence):
        each.done(checked(each, said))


def test_fields_that_a_form_does_not_have_are_not_taken() -> None:
    assert checked(change("delete-topic"), {"topic": "a", "yes": "1"}) == {"topic": "a"}


SHOWN = Shown(change("drain"), Command(("broker", "drain", "2")), {"broker": "2"}, 100.0)


def test_what_was_shown_is_done_once() -> None:
    pending = PendingChanges()
    ticket = pending.add(SHOWN)
    assert pending.take("guess", 101.0) is None
    assert pending.take(ticket, 101.0) is SHOWN
    assert pending.take(ticket, 101.0) is None


def test_what_was_shown_too_long_ago_is_not_done() -> None:
    pending = PendingChanges()
    assert pending.take(pending.add(SHOWN), 701.0) is None


def test_tickets_are_unlike_and_the_oldest_is_forgotten() -> None:
    pending = PendingChanges()
    tickets = [pending.add(SHOWN) for _ in range(PENDING_MAX + 1)]
    assert len(set(tickets)) == len(tickets)
    assert pending.take(tickets[0], 101.0) is None
    assert pending.take(tickets[1], 101.0) is SHOWN


class CannedRunner(CommandRunner):
    """Says what a test wants, and remembers what it was to run."""

    def __init__(self) -> None:
        super().__init__("127.0.0.1:9091", ClientArguments(tls_ca="ca.crt"))
        self.ran: list[tuple[str, ...]] = []
        self.outcome = Outcome("topic <b>orders</b> would be deleted\x1b[2J", 0)

    async def run(self, command: Command) -> Outcome:
        self.ran.append(command.words)
        return self.outcome


class TalkingRunner(CommandRunner):
    """Runs a script in place of the CLI."""

    program = ("-c", "import sys; sys.stdout.write('é' * 5_000_000); sys.stdout.write(sys.stdin.read())")


def test_a_command_that_talks_without_end_is_cut_and_counted_while_it_talks() -> None:
    async def run() -> Outcome:
        return await TalkingRunner("127.0.0.1:9091", ClientArguments()).run(Command((), "x" * 100_000))

    outcome = asyncio.run(run())
    assert outcome.is_well
    assert len(outcome.output) < OUTPUT_MAX
    left_out = 2 * 5_000_000 + 100_000 - OUTPUT_MAX
    assert outcome.output.endswith(f"… and {left_out:,} bytes more")


def test_a_command_imports_nothing_from_the_directory_in_which_the_console_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Python looks there first when it runs a module: whoever may write there could run what he likes."""
    (tmp_path / "click.py").write_text("raise SystemExit('this is not click')")
    monkeypatch.chdir(tmp_path)
    runner = CommandRunner("127.0.0.1:9091", ClientArguments())
    outcome = asyncio.run(runner.run(Command(("version", "--client"))))
    assert outcome.is_well, outcome.output


@pytest.fixture
def runner() -> CannedRunner:
    return CannedRunner()


@pytest.fixture
def console(runner: CannedRunner) -> Console:
    console = canned_console(allows_changes=True)
    console.runner = runner
    return console


@pytest.fixture
def client(console: Console) -> Iterator[TestClient]:
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        yield client


def ticket_of(page: str) -> str:
    return page.partition('name="ticket" value="')[2].partition('"')[0]


def test_a_change_is_shown_then_done_once(client: TestClient, runner: CannedRunner) -> None:
    assert 'value="orders"' in client.get("/changes/delete-topic?topic=orders").text
    shown = client.post("/changes/delete-topic/preview", data={"topic": "orders"})
    assert runner.ran == [("topic", "delete", "orders", "--dry-run")]
    assert "hightide topic delete orders --yes --bootstrap=127.0.0.1:9091 --tls-ca=ca.crt" in shown.text
    assert "&lt;b&gt;orders&lt;/b&gt; would be deleted\\x1b" in shown.text
    done = client.post("/changes", data={"ticket": ticket_of(shown.text)})
    assert done.status_code == 200
    again = client.post("/changes", data={"ticket": ticket_of(shown.text)})
    assert (again.status_code, "Nothing was changed" in again.text) == (409, True)
    assert runner.ran[1:] == [("topic", "delete", "orders", "--yes")]


def test_what_is_refused_when_it_is_tried_cannot_be_done(client: TestClient, runner: CannedRunner) -> None:
    runner.outcome = Outcome("client/bob may not delete orders", 1)
    shown = client.post("/changes/delete-topic/preview", data={"topic": "orders"})
    assert (shown.status_code, ticket_of(shown.text)) == (409, "")
    assert "client/bob may not delete orders" in shown.text


@pytest.mark.parametrize("ticket", ["", "guess", "é" * 100])
def test_a_yes_to_nothing_does_nothing(client: TestClient, runner: CannedRunner, ticket: str) -> None:
    assert client.post("/changes", data={"ticket": ticket}).status_code == 409
    assert runner.ran == []


@pytest.mark.parametrize("path", ["/changes", "/changes/delete-topic/preview"])
@pytest.mark.parametrize("headers", [{"origin": "http://evil.example"}, {"sec-fetch-site": "cross-site"}])
def test_another_site_changes_nothing(
    client: TestClient, runner: CannedRunner, path: str, headers: dict[str, str]
) -> None:
    assert client.post(path, data={"topic": "orders"}, headers=headers).status_code == 403
    assert runner.ran == []


def test_without_the_cookie_nothing_is_changed(client: TestClient, runner: CannedRunner) -> None:
    client.cookies.clear()
    assert client.post("/changes/delete-topic/preview", data={"topic": "orders"}).status_code == 403
    assert runner.ran == []


def test_a_form_that_is_too_large_or_none_is_refused(client: TestClient, runner: CannedRunner) -> None:
    for content in (b"value=" + b"x" * 900_000, b"a=1&" * 100, b"topic=%ff"):
        answer = client.post("/changes/delete-topic/preview", content=content)
        assert answer.status_code == 400
    assert runner.ran == []


def test_a_console_that_only_reads_has_no_route_of_a_change() -> None:
    console = canned_console()
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        assert client.get("/changes/delete-topic?topic=orders").status_code == 404
        assert client.post("/changes/delete-topic/preview", data={"topic": "orders"}).status_code == 404
        assert client.post("/changes", data={"ticket": ""}).status_code == 404
        for path in ("/", "/topics", "/topics/orders", "/failovers"):
            assert "/changes/" not in client.get(path).text


def test_pages_lead_to_changes_where_they_are_allowed(client: TestClient) -> None:
    assert "/changes/delete-topic?topic=orders" in client.get("/topics/orders").text
    page = client.get("/")
    assert "/changes/resign-controller" in page.text
    assert "changes allowed" in page.text
