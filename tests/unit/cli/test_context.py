"""Clusters have names: what is kept, and which cluster a command line means."""

import json
import os
import stat
from pathlib import Path

import pytest
from hightide.calls.addresses import DEFAULT_BOOTSTRAP as DEFAULT_OF_THE_SDK
from hightide.errors import BrokersUnavailableError, UnknownTopicError
from hightide_cli.command_line.choices import Choices
from hightide_cli.command_line.failures import sentence_of
from hightide_cli.context import target as which_cluster
from hightide_cli.context.named_clusters import (
    Context,
    ContextError,
    Contexts,
    contexts_path,
    load_contexts,
    store_contexts,
)
from hightide_cli.context.target import DEFAULT_BOOTSTRAP, Target
from hightide_cli.dev.commands import _who_finds_it
from hightide_cli.main import main

PROD = Context("prod", "prod:9092", "zk:2181/hightide")
TEST = Context("test", "test:9092")


@pytest.fixture(autouse=True)
def configuration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setattr(which_cluster, "the_running_one", lambda: None)
    for name in ("HIGHTIDE_BOOTSTRAP", "HIGHTIDE_CONTEXT"):
        monkeypatch.delenv(name, raising=False)
    return contexts_path()


def hightide(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def documented(capsys: pytest.CaptureFixture[str], *arguments: str) -> object:
    code, out, err = hightide(capsys, *arguments, "-o", "json")
    assert code == 0, err
    return json.loads(out)


def test_the_default_is_that_of_the_sdk() -> None:
    assert DEFAULT_BOOTSTRAP == DEFAULT_OF_THE_SDK


def test_what_is_stored_is_read_again(configuration: Path) -> None:
    contexts = Contexts({"prod": PROD, "test": TEST}, "test")
    store_contexts(configuration, contexts)
    assert load_contexts(configuration) == contexts


def test_the_file_is_the_users_alone_and_nothing_is_left_beside_it(configuration: Path) -> None:
    store_contexts(configuration, Contexts({"prod": PROD}))
    store_contexts(configuration, Contexts({"test": TEST}))
    assert stat.S_IMODE(configuration.stat().st_mode) == 0o600
    assert os.listdir(configuration.parent) == ["contexts.json"]


@pytest.mark.parametrize(
    "text",
    [
        "no json",
        "[]",
        '{"version":2,"contexts":{}}',
        '{"version":1,"contexts":[]}',
        '{"version":1,"contexts":{"a":{"bootstrap":7}}}',
        '{"version":1,"contexts":{"../a":{"bootstrap":"h:1"}}}',
        '{"version":1,"contexts":{"a":7}}',
        '{"version":1,"contexts":{},"selected":"a"}',
        '{"version":1,"contexts":{},"selected":["a"]}',
        "[" * 100_000,
        " " * (2 << 20),
    ],
    ids=lambda text: text[:50],
)
def test_a_file_that_somebody_broke_is_named(configuration: Path, text: str) -> None:
    configuration.parent.mkdir(parents=True)
    configuration.write_text(text)
    with pytest.raises(ContextError, match=r"contexts\.json is not what `hightide context` writes"):
        load_contexts(configuration)


@pytest.mark.parametrize("name", ["", "-a", "a/b", "../a", "a b", "é", "a" * 65])
def test_a_name_is_short_and_of_plain_letters(name: str) -> None:
    with pytest.raises(ContextError, match="is no name of a context"):
        Contexts({}).with_added(Context(name, "h:1"))


def test_the_order_in_which_clusters_are_meant(configuration: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store_contexts(configuration, Contexts({"prod": PROD, "test": TEST}, "prod"))

    def meant(**chosen: object) -> tuple[str, str | None]:
        target = Choices(**chosen).target()  # type: ignore[arg-type]
        return target.bootstrap, target.context

    everything = {"bootstrap": "b:1", "context": "test"}
    assert meant(**everything, bootstrap_is_said=True, context_is_said=True) == ("b:1", None)
    # An address that a shell exports must not turn `--context prod` into another cluster.
    assert meant(**everything, context_is_said=True) == ("test:9092", "test")
    assert meant(**everything) == ("b:1", None)
    assert meant(context="test") == ("test:9092", "test")
    assert meant() == ("prod:9092", "prod")
    store_contexts(configuration, Contexts({"prod": PROD}))
    assert meant() == (DEFAULT_BOOTSTRAP, None)


def test_only_the_default_is_left_to_the_sdk(configuration: Path) -> None:
    assert "bootstrap" not in Choices().client_arguments()
    store_contexts(configuration, Contexts({"prod": PROD}, "prod"))
    assert Choices().client_arguments() == {"bootstrap": "prod:9092"}


def test_a_context_that_there_is_not_is_no_other_cluster(capsys: pytest.CaptureFixture[str]) -> None:
    assert hightide(capsys, "cluster", "info", "--context", "nowhere") == (
        1,
        "",
        "error: there is no context 'nowhere' (there is none yet); "
        "`hightide context add NAME --bootstrap HOST:PORT` makes one\n",
    )


def test_contexts_come_are_selected_and_go(capsys: pytest.CaptureFixture[str]) -> None:
    assert hightide(capsys, "context", "add", "prod", "--bootstrap", "p:1, p:2")[1] == (
        "context prod added and selected: p:1,p:2\n"
    )
    added = documented(capsys, "context", "add", "test", "--bootstrap", "t:1", "--zookeeper", "z:1/root")
    plaintext = {"tls_ca": None, "tls_certificate": None, "tls_key": None, "token_file": None}
    test = {"context": "test", "bootstrap": "t:1", "zookeeper": "z:1/root", **plaintext}
    prod = {"context": "prod", "bootstrap": "p:1,p:2", "zookeeper": None, **plaintext}
    assert added == {**test, "selected": False}
    assert documented(capsys, "context", "show") == {**prod, "origin": "that of the selected context prod"}
    hightide(capsys, "context", "select", "test")
    listed = documented(capsys, "context", "ls")
    assert listed == {"contexts": [{**prod, "selected": False}, {**test, "selected": True}]}
    assert documented(capsys, "context", "show", "prod") == {**prod, "selected": False}
    assert hightide(capsys, "context", "rm", "test")[1] == (
        "context test forgotten; no context is selected now\n"
    )
    assert hightide(capsys, "context", "select", "test")[0] == 1


def test_a_context_is_not_replaced_by_accident(capsys: pytest.CaptureFixture[str]) -> None:
    hightide(capsys, "context", "add", "prod", "--bootstrap", "p:1")
    code, _, err = hightide(capsys, "context", "add", "prod", "--bootstrap", "q:1")
    assert (code, err) == (
        1,
        "error: there is a context prod already, for p:1: take another name, or give --force to replace it\n",
    )
    assert hightide(capsys, "context", "add", "prod", "--bootstrap", "q:1", "--force")[0] == 0
    assert load_contexts(contexts_path()).named("prod").bootstrap == "q:1"


@pytest.mark.parametrize(
    "arguments",
    [
        ("context", "add"),
        ("context", "add", "prod"),
        ("context", "add", "prod", "--bootstrap", "p:1", "--zookeeper", "z 1"),
        ("context", "select"),
    ],
    ids=" ".join,
)
def test_what_is_missing_is_told_with_exit_code_2(
    capsys: pytest.CaptureFixture[str], arguments: tuple[str, ...]
) -> None:
    assert hightide(capsys, *arguments)[0] == 2


@pytest.mark.parametrize("address", ["nonsense", "h:0", "h:99999"])
def test_an_address_is_checked_before_it_is_kept(capsys: pytest.CaptureFixture[str], address: str) -> None:
    code, _, err = hightide(capsys, "context", "add", "prod", "--bootstrap", address)
    assert code == 1
    assert "is not host:port" in err
    assert not contexts_path().exists()


def test_a_failure_to_reach_a_cluster_tells_why_it_was_that_address() -> None:
    target = Target("p:1", "that of the selected context prod", "prod")
    away = BrokersUnavailableError("no broker answers")
    told = sentence_of(away)
    assert told is not None
    assert sentence_of(away, target) == f"{told[:-1]}; the address p:1 is that of the selected context prod"
    # Who answered was the one that was meant.
    unknown = UnknownTopicError("no topic t", topic="t")
    assert sentence_of(unknown, target) == sentence_of(unknown)


def test_who_starts_a_cluster_here_is_told_that_another_one_is_meant() -> None:
    here = Target("127.0.0.1:9092", "that of the cluster of `hightide dev up`")
    prod = Target("p:1", "that of the selected context prod", "prod")
    assert _who_finds_it(here, "127.0.0.1:9092").startswith("hightide commands use this cluster by default")
    assert _who_finds_it(prod, "127.0.0.1:9092") == (
        "hightide commands use another cluster, p:1 (that of the selected context prod); for this one:"
    )
