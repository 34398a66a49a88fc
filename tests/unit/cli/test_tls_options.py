"""The files of TLS that a command uses: the command line's, else the context's, else the environment's."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hightide.calls.credentials import TOKEN_FILE_VARIABLE, Credentials
from hightide.calls.tls_files import CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, TlsFiles
from hightide.errors import TlsHandshakeError
from hightide_cli.cluster.metadata_probe import MetadataProbe
from hightide_cli.command_line.choices import Choices
from hightide_cli.command_line.client_arguments import CredentialFiles, hand_on_files
from hightide_cli.command_line.exit_codes import EXIT_UNREACHABLE
from hightide_cli.context import target as which_cluster
from hightide_cli.context.named_clusters import (
    Context,
    Contexts,
    contexts_path,
    load_contexts,
    store_contexts,
)
from hightide_cli.main import main
from tls_server import Authority, Place

VARIABLES = (CA_VARIABLE, CERTIFICATE_VARIABLE, KEY_VARIABLE, TOKEN_FILE_VARIABLE)


@pytest.fixture(autouse=True)
def _nothing_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "configuration"))
    monkeypatch.setattr(which_cluster, "the_running_one", lambda: None)
    for name in ("HIGHTIDE_BOOTSTRAP", "HIGHTIDE_CONTEXT", *VARIABLES):
        # What a command sets goes afterwards only where there was something before.
        monkeypatch.setenv(name, "")
        monkeypatch.delenv(name)


@pytest.fixture
def ca(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "hightide", "hightide")


@pytest.fixture
def place(ca: Authority) -> Iterator[Place]:
    """A broker that asks for certificates."""
    made = Place()
    made.serve(ca.broker())
    yield made
    made.close()


def options(files: TlsFiles) -> list[str]:
    given = [f"--tls-ca={files.ca}"]
    if files.certificate is not None and files.key is not None:
        given += [f"--tls-certificate={files.certificate}", f"--tls-key={files.key}"]
    return given


def paths(files: TlsFiles) -> CredentialFiles:
    return CredentialFiles(files.ca, files.certificate, files.key)


def test_options_are_taken_before_and_behind_the_command(place: Place, ca: Authority) -> None:
    given = [f"--bootstrap={place.address}", *options(ca.client())]
    assert main([*given, "rpc", "ls"]) == 0
    assert main(["rpc", "ls", *given]) == 0
    assert main(["rpc", "ls", place.address, *options(ca.client())]) == 0


def test_variables_count_where_nothing_is_said(
    place: Place, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = ca.client()
    for name, path in zip(VARIABLES, (alice.ca, alice.certificate, alice.key, None), strict=True):
        monkeypatch.setenv(name, path or "")
    assert main(["rpc", "ls", "--bootstrap", place.address]) == 0


def test_a_context_brings_its_files_into_every_directory(
    place: Place, ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    alice = ca.client()
    monkeypatch.chdir(Path(alice.ca).parent)
    relative = TlsFiles("ca.crt", os.path.relpath(alice.certificate or ""), os.path.relpath(alice.key or ""))
    assert main(["context", "add", "prod", "--bootstrap", place.address, *options(relative)]) == 0
    monkeypatch.chdir("/")
    assert main(["rpc", "ls", "--context", "prod"]) == 0
    monkeypatch.setenv(CA_VARIABLE, "/nowhere/ca.crt")
    assert main(["rpc", "ls"]) == 0, "the files of a context go before those of the environment"


def test_the_files_of_a_context_are_shown(ca: Authority, capsys: pytest.CaptureFixture[str]) -> None:
    alice = ca.client()
    assert main(["context", "add", "prod", "--bootstrap", "b:1", *options(alice)]) == 0
    files = [alice.ca, alice.certificate, alice.key]
    for command in (["show", "prod"], ["show"]):
        capsys.readouterr()
        assert main(["context", *command, "-o", "json"]) == 0
        shown = json.loads(capsys.readouterr().out)
        assert [shown[each] for each in ("tls_ca", "tls_certificate", "tls_key")] == files
        assert main(["context", *command]) == 0
        text = capsys.readouterr().out
        assert all(str(each) in text for each in files)


def test_a_context_keeps_the_files_of_the_environment_that_it_was_made_in(
    ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CA_VARIABLE, str(ca.file))
    assert main(["context", "add", "prod", "--bootstrap", "b:1"]) == 0
    assert load_contexts(contexts_path()).named("prod").files == CredentialFiles(str(ca.file))


def test_the_command_line_replaces_all_files_of_a_context() -> None:
    """Else the certificate of one cluster would be shown to another."""
    prod = Context("prod", "b:1", files=CredentialFiles("prod.crt", "alice.crt", "alice.key"))
    store_contexts(contexts_path(), Contexts({"prod": prod}, "prod"))
    assert Choices(files=CredentialFiles("other.crt")).client_arguments() == {
        "bootstrap": "b:1",
        "tls_ca": "other.crt",
    }
    assert Choices().client_arguments() == {
        "bootstrap": "b:1",
        "tls_ca": "prod.crt",
        "tls_certificate": "alice.crt",
        "tls_key": "alice.key",
    }


def test_a_context_with_files_that_are_no_paths_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    store_contexts(
        contexts_path(), Contexts({"prod": Context("prod", "b:1", files=CredentialFiles("ca.crt"))})
    )
    broken = contexts_path().read_text().replace('"ca.crt"', "7")
    contexts_path().write_text(broken)
    assert main(["context", "ls"]) == 1
    assert "context 'prod' has a file of TLS or of a token that is no path" in capsys.readouterr().err


@pytest.mark.parametrize(
    "command",
    [
        "topic ls",
        "topic consume t",
        "topic get t 0 0",
        "group ls",
        "cluster info",
        "rpc ls",
        "cluster health",
    ],
)
def test_a_refused_certificate_is_told_in_one_sentence_by_each_way_to_ask(
    place: Place, ca: Authority, capsys: pytest.CaptureFixture[str], command: str
) -> None:
    assert (
        main([*command.split(), "--bootstrap", place.address, "--tls-ca", str(ca.file)]) == EXIT_UNREACHABLE
    )
    error = capsys.readouterr().err
    assert f"error: {place.address} asks for a certificate of this client" in error
    assert error.endswith("Give tls_certificate and tls_key; the address is what --bootstrap says\n")


def test_options_that_lack_one_say_which(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["topic", "ls", "--tls-certificate", "alice.crt"]) == 1
    assert capsys.readouterr().err == (
        "error: tls_certificate is given without tls_key: give its key as well\n"
    )


def test_a_single_question_waits_for_the_reason_of_its_failure(place: Place, ca: Authority) -> None:
    with (
        MetadataProbe(60_000, Credentials(ca.trusted())) as probe,
        pytest.raises(TlsHandshakeError, match="asks for a certificate of this client"),
    ):
        probe.ask(place.address)


def test_processes_that_a_command_starts_get_the_files_by_the_environment(
    ca: Authority, monkeypatch: pytest.MonkeyPatch
) -> None:
    # All three are set by monkeypatch first, so that it also removes what the command puts there.
    for each in VARIABLES:
        monkeypatch.setenv(each, "/of/another/cluster")
    monkeypatch.setenv(KEY_VARIABLE, "/of/another/cluster.key")
    hand_on_files(CredentialFiles())
    assert os.environ[KEY_VARIABLE] == "/of/another/cluster.key"
    hand_on_files(paths(ca.trusted()))
    assert [os.environ.get(each) for each in VARIABLES] == [str(ca.file), None, None, None]
    alice = ca.client()
    hand_on_files(paths(alice))
    assert [os.environ.get(each) for each in VARIABLES] == [alice.ca, alice.certificate, alice.key, None]
    hand_on_files(CredentialFiles("ca.crt", token="alice.jwt"))
    assert [os.environ.get(each) for each in VARIABLES] == ["ca.crt", None, None, "alice.jwt"]


def test_a_token_belongs_to_its_context_as_the_files_of_tls_do(
    ca: Authority, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    given = ["--tls-ca", str(ca.file), "--token-file", "alice.jwt"]
    assert main(["context", "add", "prod", "--bootstrap", "b:1", *given]) == 0
    token_file = str(tmp_path / "alice.jwt")
    expected = {"bootstrap": "b:1", "tls_ca": str(ca.file), "token_file": token_file}
    assert Choices().client_arguments() == expected
    for command in (["show", "prod"], ["show"]):
        capsys.readouterr()
        assert main(["context", *command, "-o", "json"]) == 0
        assert json.loads(capsys.readouterr().out)["token_file"] == token_file
        assert main(["context", *command]) == 0
        assert token_file in capsys.readouterr().out
    monkeypatch.setenv(TOKEN_FILE_VARIABLE, "other.jwt")
    assert Choices().client_arguments() == expected
    assert Choices(files=CredentialFiles("other.crt")).client_arguments() == {
        "bootstrap": "b:1",
        "tls_ca": "other.crt",
    }


def test_a_token_is_not_sent_in_plaintext_by_any_way_to_ask(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "alice.jwt").write_text("alice")
    given = ["--bootstrap", "b.example:1", "--token-file", str(tmp_path / "alice.jwt")]
    for command in ("topic ls", "cluster health", "rpc ls", "rpc ls b.example:1"):
        assert main([*command.split(), *given]) == 1
        assert "error: a token is not sent to b.example:1 without TLS" in capsys.readouterr().err
