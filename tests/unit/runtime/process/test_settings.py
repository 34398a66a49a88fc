from dataclasses import replace
from pathlib import Path

import pytest
from hightide_runtime.access.client_identities import ClientIdentities, TokenSettings
from hightide_runtime.addresses import HostPort
from hightide_runtime.process.effective_settings import SettingOrigin
from hightide_runtime.process.settings import Address, LogLevel, ServiceSettings
from hightide_runtime.tls.files import ClientAuth, ServerTls, TlsFiles
from pydantic import Field


class Settings(ServiceSettings, env_prefix="HIGHTIDE_TEST_", cli_prog_name="hightide-test"):
    """A service for tests."""

    test_id: int = Field(ge=0)
    listen: Address = Field(HostPort("127.0.0.1", 9092))


def complaint_about(arguments: str, capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        Settings.from_command_line(arguments.split())
    assert ended.value.code == 2
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    return lines[0]


def test_flags_are_read_in_kebab_case() -> None:
    settings = Settings.from_command_line(["--test-id", "3", "--listen", "[::1]:7", "--log-level", "DEBUG"])
    assert (settings.test_id, settings.listen, settings.log_level) == (3, HostPort("::1", 7), LogLevel.DEBUG)


def test_a_flag_wins_over_the_environment_and_that_over_the_default(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHTIDE_TEST_TEST_ID", "1")
    monkeypatch.setenv("HIGHTIDE_TEST_ZOOKEEPER", "zk:1")
    settings = Settings.from_command_line(["--test-id", "2"])
    assert (settings.test_id, settings.zookeeper, settings.listen.port) == (2, "zk:1", 9092)


def test_each_setting_in_use_tells_who_said_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HIGHTIDE_TEST_TEST_ID", "1")
    monkeypatch.setenv("HIGHTIDE_TEST_ZOOKEEPER", "zk:1")
    used = {
        each.name: each
        for each in Settings.from_command_line(["--test-id", "2", "--listen=kite:7", "--insecure"]).effective
    }
    assert list(used) == sorted(used)
    assert {name: (each.value, each.default, each.origin) for name, each in used.items()} == {
        "advertise": ("", "", SettingOrigin.DEFAULT),
        "authorization": ("none", "none", SettingOrigin.DEFAULT),
        "external-advertise": ("", "", SettingOrigin.DEFAULT),
        "external-introspection": ("false", "false", SettingOrigin.DEFAULT),
        "external-listen": ("", "", SettingOrigin.DEFAULT),
        "external-tls-client-auth": ("", "", SettingOrigin.DEFAULT),
        "insecure": ("true", "false", SettingOrigin.ARGUMENT),
        "listen": ("kite:7", "127.0.0.1:9092", SettingOrigin.ARGUMENT),
        "log-format": ("text", "text", SettingOrigin.DEFAULT),
        "log-level": ("INFO", "INFO", SettingOrigin.DEFAULT),
        "prometheus-listen": ("", "", SettingOrigin.DEFAULT),
        "super-users": ("", "", SettingOrigin.DEFAULT),
        "test-id": ("2", "", SettingOrigin.ARGUMENT),
        "subject-mapping": ("", "", SettingOrigin.DEFAULT),
        "tls-ca": ("", "", SettingOrigin.DEFAULT),
        "tls-certificate": ("", "", SettingOrigin.DEFAULT),
        "tls-client-auth": ("required", "required", SettingOrigin.DEFAULT),
        "tls-key": ("", "", SettingOrigin.DEFAULT),
        "token-audience": ("", "", SettingOrigin.DEFAULT),
        "token-claim": ("sub", "sub", SettingOrigin.DEFAULT),
        "token-issuer": ("", "", SettingOrigin.DEFAULT),
        "token-keys": ("", "", SettingOrigin.DEFAULT),
        "zookeeper": ("zk:1", "127.0.0.1:2181", SettingOrigin.ENVIRONMENT),
        "zookeeper-acl": ("open", "open", SettingOrigin.DEFAULT),
        "zookeeper-connect-timeout-ms": ("30000", "30000", SettingOrigin.DEFAULT),
        "zookeeper-credentials-file": ("", "", SettingOrigin.DEFAULT),
        "zookeeper-session-timeout-ms": ("6000", "6000", SettingOrigin.DEFAULT),
        "zookeeper-tls-ca": ("", "", SettingOrigin.DEFAULT),
        "zookeeper-tls-certificate": ("", "", SettingOrigin.DEFAULT),
        "zookeeper-tls-key": ("", "", SettingOrigin.DEFAULT),
    }
    assert used["zookeeper"].variable == "HIGHTIDE_TEST_ZOOKEEPER"
    assert all(each.meaning for each in used.values() if each.name not in {"test-id", "listen"})


def test_others_are_told_the_advertised_address_or_else_where_it_listens() -> None:
    assert Settings.from_command_line(["--test-id", "1"]).advertised == HostPort("127.0.0.1", 9092)
    advertising = Settings.from_command_line(["--test-id", "1", "--advertise", "kite:80"])
    assert advertising.advertised == HostPort("kite", 80)


def test_clients_from_outside_are_told_the_external_address_or_else_where_its_listener_is() -> None:
    assert Settings.from_command_line(["--test-id", "1"]).external_advertised is None
    listening = ["--test-id", "1", "--external-listen", "10.0.0.1:9094", "--insecure"]
    assert Settings.from_command_line(listening).external_advertised == HostPort("10.0.0.1", 9094)
    told = Settings.from_command_line([*listening, "--external-advertise", "localhost:19092"])
    assert told.external_advertised == HostPort("localhost", 19092)


def test_a_port_that_nobody_reaches_is_not_told_to_others(capsys: pytest.CaptureFixture[str]) -> None:
    listening = complaint_about("--test-id 1 --listen kite:0", capsys)
    assert "other processes would get kite:0, and cannot connect to port 0; give --listen a port" in listening
    advertising = complaint_about("--test-id 1 --advertise kite:0", capsys)
    assert "other processes would get kite:0" in advertising
    assert "give --advertise a port" in advertising
    # Whoever forwards a port of his own may listen at any.
    behind = Settings.from_command_line(
        ["--test-id", "1", "--listen", "kite:0", "--advertise", "hill:7", "--insecure"]
    )
    assert (behind.listen.port, behind.advertised) == (0, HostPort("hill", 7))


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            "--external-advertise kite:1",
            "clients would get kite:1, and there is no second listener for them; give --external-listen",
        ),
        ("--external-listen 0.0.0.0:1", "--external-listen 0.0.0.0:1 means every address of this machine"),
        (
            "--external-listen 0.0.0.0:1 --external-advertise [::]:1",
            "no client can connect to [::]:1; give a host",
        ),
        ("--external-listen 127.0.0.1:0", "would get 127.0.0.1:0, and cannot connect to port 0"),
        (
            "--external-listen kite:1 --external-advertise kite:0",
            "would get kite:0, and cannot connect to port 0",
        ),
    ],
)
def test_external_addresses_that_cannot_work_are_refused_in_a_line(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in complaint_about(f"--test-id 1 {arguments}", capsys)


@pytest.mark.parametrize("address", ["nonsense", "host:", ":1", "host:99999", "a b:1", "host:-1", "a/b:1"])
def test_a_bad_address_is_one_line_that_names_the_flag_and_the_value(
    address: str, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SystemExit):
        Settings.from_command_line(["--test-id", "1", f"--listen={address}"])
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 1
    assert "--listen" in lines[0]
    assert repr(address) in lines[0]


def test_a_missing_setting_is_one_line_that_says_how_to_give_it(capsys: pytest.CaptureFixture[str]) -> None:
    line = complaint_about("", capsys)
    assert "--test-id is missing" in line
    assert "HIGHTIDE_TEST_TEST_ID" in line


def test_a_number_out_of_bounds_is_one_line_that_says_the_bound(capsys: pytest.CaptureFixture[str]) -> None:
    assert "--test-id (HIGHTIDE_TEST_TEST_ID): Input should be greater than or equal to 0" in complaint_about(
        "--test-id -1", capsys
    )


def test_what_is_no_number_is_said_so_once(capsys: pytest.CaptureFixture[str]) -> None:
    line = complaint_about("--test-id seven", capsys)
    assert line.startswith(
        "hightide-test: error: --test-id (HIGHTIDE_TEST_TEST_ID): 'seven' is not a whole number (see"
    )


def test_help_ends_with_success(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        Settings.from_command_line(["--help"])
    assert ended.value.code == 0
    assert "--zookeeper" in capsys.readouterr().out


def test_help_calls_values_as_people_do(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        Settings.from_command_line(["--help"])
    told = capsys.readouterr().out
    for usage in ("--listen HOST:PORT", "--test-id N", "--zookeeper TEXT"):
        assert usage in told
    assert "None" not in told


TLS = "--tls-certificate a.crt --tls-key a.key --tls-ca ca.crt"


@pytest.mark.parametrize("listen", ["0.0.0.0:1", "10.0.0.1:1", "[::]:1", "kite:1"])
def test_without_tls_a_process_refuses_to_listen_where_other_machines_reach_it(
    listen: str, capsys: pytest.CaptureFixture[str]
) -> None:
    for flag in ("--listen", "--external-listen"):
        arguments = f"--test-id 1 {flag} {listen} --advertise kite:1"
        if flag == "--external-listen":
            arguments += " --external-advertise kite:1"
        line = complaint_about(arguments, capsys)
        assert f"{flag} {listen} can be reached from other machines" in line
        assert "give --tls-certificate, --tls-key and --tls-ca" in line
        assert "or --insecure" in line
        assert Settings.from_command_line([*arguments.split(), "--insecure"]).server_tls is None
        assert Settings.from_command_line([*arguments.split(), *TLS.split()]).server_tls is not None


@pytest.mark.parametrize("listen", ["127.0.0.1:1", "127.3.2.1:1", "[::1]:1", "localhost:1"])
def test_on_loopback_nothing_has_to_be_said(listen: str) -> None:
    settings = Settings.from_command_line(["--test-id", "1", "--listen", listen, "--external-listen", listen])
    assert settings.server_tls is None


def test_tls_is_for_all_listeners_with_the_hosts_that_are_told() -> None:
    settings = Settings.from_command_line(
        f"--test-id 1 --listen 0.0.0.0:1 --advertise kite:1 --external-listen 0.0.0.0:2 "
        f"--external-advertise hill:2 {TLS}".split()
    )
    files = TlsFiles(Path("a.crt"), Path("a.key"), Path("ca.crt"))
    assert settings.tls_files == files
    assert settings.server_tls == ServerTls(files, ClientAuth.REQUIRED, ClientAuth.REQUIRED, ("kite", "hill"))


def test_clients_of_the_second_listener_may_do_without_a_certificate() -> None:
    arguments = f"--test-id 1 --external-listen 127.0.0.1:2 {TLS}".split()
    for asked, internal, external in (
        ("--tls-client-auth none", ClientAuth.NONE, ClientAuth.NONE),
        ("--external-tls-client-auth none", ClientAuth.REQUIRED, ClientAuth.NONE),
        ("--tls-client-auth none --external-tls-client-auth required", ClientAuth.NONE, ClientAuth.REQUIRED),
    ):
        tls = Settings.from_command_line([*arguments, *asked.split()]).server_tls
        assert tls is not None
        assert (tls.client_auth, tls.external_client_auth) == (internal, external)


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ("--tls-certificate a.crt --tls-key a.key", "missing: --tls-ca"),
        ("--tls-ca ca.crt", "missing: --tls-certificate and --tls-key"),
        (
            "--tls-client-auth none",
            "--tls-client-auth is about TLS, which needs --tls-certificate",
        ),
        (f"{TLS} --external-tls-client-auth none", "there is none; give --external-listen"),
        (
            f"{TLS} --tls-client-auth maybe",
            "(HIGHTIDE_TEST_TLS_CLIENT_AUTH): Input should be",
        ),
    ],
)
def test_settings_of_tls_that_cannot_work_are_refused_in_a_line(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in complaint_about(f"--test-id 1 {arguments}", capsys)


TOKENS = "--token-keys keys.json --token-issuer https://issuer.example --token-audience hightide"


def test_clients_of_the_second_listener_may_show_tokens_instead() -> None:
    arguments = f"--test-id 1 {TOKENS} --external-listen"
    plaintext = Settings.from_command_line([*arguments.split(), "127.0.0.1:2"])
    expected = TokenSettings(Path("keys.json"), "https://issuer.example", "hightide")
    assert plaintext.client_identities == ClientIdentities(None, expected)
    secured = f"{arguments} 0.0.0.0:2 --external-advertise kite:2 {TLS} --external-tls-client-auth none"
    secured += " --token-claim azp"
    assert Settings.from_command_line(secured.split()).client_identities.tokens == replace(
        expected, claim="azp"
    )


def test_rules_name_clients_by_the_subjects_of_their_certificates() -> None:
    settings = Settings.from_command_line(
        [*f"--test-id 1 {TLS} --subject-mapping".split(), "RULE:CN=(.*),O=Acme/$1/,RULE:.*/guest/"]
    )
    assert settings.client_identities.subjects is not None
    assert str(settings.client_identities.subjects.principal_of(b"CN=alice,O=Acme")) == "client/alice"
    assert settings.client_identities.tokens is None


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (
            "--token-keys a --external-listen 127.0.0.1:2",
            "missing: --token-issuer and --token-audience",
        ),
        ("--token-audience a --token-issuer b", "missing: --token-keys"),
        ("--token-claim azp", "missing: --token-keys, --token-issuer and --token-audience"),
        ("--token-issuer= --token-keys a --token-audience b", "--token-issuer (HIGHTIDE_TEST_TOKEN_ISSUER)"),
        (TOKENS, "there is none; give --external-listen"),
        (
            f"{TOKENS} --external-listen 10.0.0.1:2 --insecure",
            "tokens would travel to --external-listen 10.0.0.1:2 in plaintext",
        ),
        (f"{TOKENS} {TLS} --external-listen 127.0.0.1:2", "give --external-tls-client-auth none"),
        ("--subject-mapping RULE:CN=(.*)/$1/", "no listener asks for them; give --tls-certificate"),
        (
            f"{TLS} --tls-client-auth none --subject-mapping RULE:CN=(.*)/$1/",
            "no listener asks for them",
        ),
        (
            f"{TLS} --subject-mapping DEFAULT",
            "--subject-mapping (HIGHTIDE_TEST_SUBJECT_MAPPING): 'DEFAULT' is",
        ),
    ],
)
def test_settings_of_clients_that_cannot_work_are_refused_in_a_line(
    arguments: str, complaint: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert complaint in complaint_about(f"--test-id 1 {arguments}", capsys)
