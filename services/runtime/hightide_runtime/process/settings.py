"""The settings that every service has: flags in kebab-case, or HIGHTIDE_<SERVICE>_<FIELD> in the
environment."""

import enum
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import (
    BeforeValidator,
    Field,
    PlainSerializer,
    PrivateAttr,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic_settings import (
    BaseSettings,
    CliApp,
    CliImplicitFlag,
    CliSettingsSource,
    NoDecode,
    SettingsConfigDict,
    SettingsError,
)

from hightide_runtime.access.client_identities import ClientIdentities, TokenSettings
from hightide_runtime.access.subject_mapping import SubjectMapping
from hightide_runtime.addresses import HostPort
from hightide_runtime.process.effective_settings import (
    EffectiveSetting,
    SettingOrigin,
    effective_settings,
    told_by_name,
)
from hightide_runtime.process.logs import LogFormat
from hightide_runtime.tls.files import ClientAuth, ServerTls, TlsFiles
from hightide_runtime.znodes.acls_znode import ANY_CLIENT
from hightide_runtime.zookeeper.security import ZnodeAcl, ZooKeeperSecurity
from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls


def _host_port(value: object) -> object:
    return HostPort.parse(value) if isinstance(value, str) else value


#: A settings field that is written host:port. NoDecode: pydantic-settings would expect JSON for a dataclass.
Address = Annotated[HostPort, NoDecode, BeforeValidator(_host_port), PlainSerializer(str, return_type=str)]
#: What types are called in `--help`.
_METAVARS = {
    "HostPort": "HOST:PORT",
    "int": "N",
    "str": "TEXT",
    "tuple[Path,...]": "DIRECTORY",
    "tuple[str,...]": "PRINCIPAL",
    "Path": "FILE",
}
_EVERYWHERE = frozenset({"0.0.0.0", "::"})


def _principals(value: object) -> object:
    if not isinstance(value, str):
        return value
    return tuple(each.strip() for each in value.split(",") if each.strip())


#: Principals, separated by commas.
Principals = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_principals)]


class Authorization(enum.StrEnum):
    """What decides about callers, beside the rules of methods."""

    #: Nothing: whoever may call a method may do what it does to everything.
    NONE = "none"
    #: The ACLs of the cluster.
    ACLS = "acls"


class LogLevel(enum.StrEnum):
    """How much is logged."""

    DEBUG = "DEBUG"
    INFO = "INFO"
    WARNING = "WARNING"
    ERROR = "ERROR"


class ServiceSettings(BaseSettings):
    """The settings that all services share. A service derives from it and adds its own fields.

    class BrokerSettings(ServiceSettings, env_prefix="HIGHTIDE_BROKER_", cli_prog_name="hightide-broker"): ...
    """

    model_config = SettingsConfigDict(
        cli_kebab_case=True, cli_avoid_json=True, cli_hide_none_type=True, extra="ignore", frozen=True
    )

    listen: Address = Field(description="the host:port to listen on")
    advertise: Address | None = Field(
        None,
        description="the host:port that clients and other processes get to reach this one; default: --listen",
    )
    external_listen: Address | None = Field(
        None,
        description="the host:port of a second listener, for clients from another network; default: none",
    )
    external_advertise: Address | None = Field(
        None,
        description="the host:port that clients of the second listener get to reach this process; default: "
        "--external-listen",
    )
    external_introspection: CliImplicitFlag[bool] = Field(
        False,
        description="whether the second listener, too, serves reflection and channelz, which tell callers "
        "what methods, connections and calls there are",
    )
    tls_certificate: Path | None = Field(
        None,
        description="the PEM file with the certificate of this process; with it, --tls-key and --tls-ca all "
        "connections use TLS; default: none do",
    )
    tls_key: Path | None = Field(None, description="the PEM file with the private key of --tls-certificate")
    tls_ca: Path | None = Field(
        None, description="the PEM file with the CAs whose certificates this process trusts"
    )
    tls_client_auth: ClientAuth = Field(
        ClientAuth.REQUIRED,
        description="with TLS: whether a client must bring a certificate that a CA of --tls-ca signed, "
        "required or none",
    )
    external_tls_client_auth: ClientAuth | None = Field(
        None,
        description="with TLS: the same for the second listener; default: as --tls-client-auth",
    )
    subject_mapping: str | None = Field(
        None,
        description="where clients show certificates: rules that make the name of a client of the subject of "
        "a certificate without a SPIFFE URI: RULE:pattern/replacement/, with an L or U behind it for lower "
        "or upper case, separated by commas; default: such certificates are refused",
    )
    token_keys: Path | None = Field(
        None,
        description="the file, a JWK set or PEM, with the public keys of the issuer of tokens: with it, the "
        "second listener asks its clients for bearer tokens; it is read again when it changes",
    )
    token_issuer: str | None = Field(
        None, min_length=1, description="with --token-keys: the issuer that tokens must name (iss)"
    )
    token_audience: str | None = Field(
        None, min_length=1, description="with --token-keys: the audience that tokens must name (aud)"
    )
    token_claim: str = Field(
        "sub", min_length=1, description="with --token-keys: the claim of a token that names the client"
    )
    authorization: Authorization = Field(
        Authorization.NONE,
        description="what decides which topics and groups a client may use: none (it may use all), or acls "
        "(what `hightide acl add` has allowed); the same for all processes of a cluster",
    )
    super_users: Principals = Field(
        (),
        description="with ACLs: who may do everything, such as client/admin; several are separated by commas",
    )
    insecure: CliImplicitFlag[bool] = Field(
        False,
        description="whether a process without TLS may listen at an address that other machines reach: all "
        "who reach it may then read, write and delete everything",
    )
    prometheus_listen: Address | None = Field(
        None,
        description="the host:port at which Prometheus scrapes /metrics, in plain HTTP and without a "
        "password: use loopback or a network of your own; default: no metrics are served",
    )
    zookeeper: str = Field(
        "127.0.0.1:2181", description="the ZooKeeper of the cluster: host:port[,host:port…][/chroot]"
    )
    zookeeper_session_timeout_ms: int = Field(
        6000,
        ge=200,
        le=120_000,
        description="the ZooKeeper session timeout to ask for: a process that ZooKeeper has not heard for so "
        "long counts as dead; ZooKeeper grants 2 to 20 of its ticks",
    )
    zookeeper_connect_timeout_ms: int = Field(
        30_000,
        ge=100,
        description="how long the process tries to reach ZooKeeper when it starts, before it ends",
    )
    zookeeper_tls_ca: Path | None = Field(
        None,
        description="the CAs, in PEM, that may have signed the certificates of ZooKeeper servers: turns "
        "TLS with ZooKeeper on; default: plaintext",
    )
    zookeeper_tls_certificate: Path | None = Field(
        None,
        description="the certificate, in PEM, for ZooKeeper servers that ask for one; default: "
        "--tls-certificate",
    )
    zookeeper_tls_key: Path | None = Field(
        None, description="the key of --zookeeper-tls-certificate, in PEM; default: --tls-key"
    )
    zookeeper_credentials_file: Path | None = Field(
        None,
        description="the file with user:password for ZooKeeper, the same for all processes of the "
        "cluster, which nobody else may read (chmod 600); a second line while they are replaced; "
        "default: none",
    )
    zookeeper_acl: ZnodeAcl = Field(
        ZnodeAcl.OPEN,
        description="who may change the znodes that the process creates: open (anyone who reaches "
        "ZooKeeper), or creator (only those with these credentials, and the process refuses a ZooKeeper that "
        "is open)",
    )
    log_level: LogLevel = Field(
        LogLevel.INFO, description="the least severe messages to log; the log goes to stderr"
    )
    log_format: LogFormat = Field(
        LogFormat.TEXT,
        description="how messages are logged: text, for people, or json, one object a line, for programs",
    )

    _told: dict[str, SettingOrigin] = PrivateAttr(default_factory=dict)

    @property
    def effective(self) -> list[EffectiveSetting]:
        """Every setting of this process, by name, with its origin. None is a secret."""
        return effective_settings(self, self._told)

    @property
    def advertised(self) -> HostPort:
        """The address for other processes."""
        return self.advertise or self.listen

    @property
    def external_advertised(self) -> HostPort | None:
        """The address for clients from outside; None: there is none."""
        return self.external_advertise or self.external_listen

    @property
    def tls_files(self) -> TlsFiles | None:
        """The certificate files of this process; None: it uses no TLS."""
        if self.tls_certificate is None or self.tls_key is None or self.tls_ca is None:
            return None
        return TlsFiles(self.tls_certificate, self.tls_key, self.tls_ca)

    @property
    def server_tls(self) -> ServerTls | None:
        """The TLS of this process's listeners, for `serve`; None: they speak plaintext."""
        if self.tls_files is None:
            return None
        told = (self.advertised, self.external_advertised)
        hosts = dict.fromkeys(address.host for address in told if address is not None)
        return ServerTls(
            self.tls_files,
            self.tls_client_auth,
            self.external_tls_client_auth or self.tls_client_auth,
            tuple(hosts),
        )

    @property
    def client_identities(self) -> ClientIdentities:
        """How clients show who they are, for `serve`."""
        tokens = None
        if self.token_keys is not None and self.token_issuer is not None and self.token_audience is not None:
            tokens = TokenSettings(self.token_keys, self.token_issuer, self.token_audience, self.token_claim)
        subjects = None if self.subject_mapping is None else SubjectMapping.parse(self.subject_mapping)
        return ClientIdentities(subjects, tokens)

    @property
    def knows_callers(self) -> bool:
        """Whether callers may show who they are; otherwise all are anonymous."""
        return self.tls_files is not None or self.token_keys is not None

    def zookeeper_security(self) -> ZooKeeperSecurity:
        """TLS, credentials and ACL for the session. Reads the files. Raises StartupError."""
        ca, certificate, key = self.zookeeper_tls_ca, self.zookeeper_tls_certificate, self.zookeeper_tls_key
        if certificate is None:
            certificate, key = self.tls_certificate, self.tls_key
        tls = None if ca is None else ZooKeeperTls(ca, certificate, key)
        return ZooKeeperSecurity.of(tls, self.zookeeper_credentials_file, self.zookeeper_acl)

    @model_validator(mode="after")
    def _secures_zookeeper(self) -> Self:
        certificate, key = self.zookeeper_tls_certificate, self.zookeeper_tls_key
        if (certificate is None) != (key is None):
            raise ValueError(
                "a certificate needs its key: give --zookeeper-tls-certificate and --zookeeper-tls-key"
            )
        if certificate is not None and self.zookeeper_tls_ca is None:
            raise ValueError(
                "--zookeeper-tls-certificate is for TLS with ZooKeeper, which --zookeeper-tls-ca turns on"
            )
        if self.zookeeper_acl is ZnodeAcl.CREATOR and self.zookeeper_credentials_file is None:
            raise ValueError(
                "--zookeeper-acl creator needs credentials, which name the creator: give "
                "--zookeeper-credentials-file"
            )
        return self

    @field_validator("external_advertise", mode="after")
    @classmethod
    def _has_a_listener(cls, told: HostPort | None, info: ValidationInfo) -> HostPort | None:
        if told is not None and info.data.get("external_listen") is None:
            raise ValueError(
                f"clients would get {told}, and there is no second listener for them; give --external-listen"
            )
        if told is not None and told.host in _EVERYWHERE:
            raise ValueError(f"no client can connect to {told}; give a host that clients can reach")
        return told

    @model_validator(mode="after")
    def _tells_where(self) -> Self:
        if self.advertised.port == 0:
            raise ValueError(
                f"other processes would get {self.advertised}, and cannot connect to port 0; give "
                f"{'--listen' if self.advertise is None else '--advertise'} a port that they can reach"
            )
        listen = self.external_listen
        if listen is not None and self.external_advertise is None and listen.host in _EVERYWHERE:
            raise ValueError(
                f"--external-listen {listen} means every address of this machine, and clients need one "
                "address that they can reach; give --external-advertise"
            )
        told = self.external_advertised
        if told is not None and told.port == 0:
            raise ValueError(
                f"clients from outside would get {told}, and cannot connect to port 0; give "
                "--external-advertise a port that they can reach"
            )
        return self

    @model_validator(mode="after")
    def _is_safe(self) -> Self:
        given = {name: getattr(self, name) for name in ("tls_certificate", "tls_key", "tls_ca")}
        missing = [name for name, path in given.items() if path is None]
        if 0 < len(missing) < len(given):
            raise ValueError(f"TLS needs {_flags(given)} together; missing: {_flags(missing)}")
        if missing and (asked := self.model_fields_set & {"tls_client_auth", "external_tls_client_auth"}):
            raise ValueError(f"{_flags(sorted(asked))} is about TLS, which needs {_flags(given)}")
        if self.external_tls_client_auth is not None and self.external_listen is None:
            raise ValueError(
                "--external-tls-client-auth is for a second listener, and there is none; give "
                "--external-listen"
            )
        for flag, listen in (("--listen", self.listen), ("--external-listen", self.external_listen)):
            if missing and listen is not None and not listen.is_loopback and not self.insecure:
                raise ValueError(
                    f"{flag} {listen} can be reached from other machines, and without TLS all who reach it "
                    f"may read, write and delete everything; give {_flags(given)} (`hightide certs` issues "
                    "such files), or --insecure if you trust all who are on that network"
                )
        return self

    @field_validator("subject_mapping", mode="after")
    @classmethod
    def _has_rules(cls, text: str | None) -> str | None:
        if text is not None:
            SubjectMapping.parse(text)
        return text

    @model_validator(mode="after")
    def _knows_clients(self) -> Self:
        tls = self.server_tls
        certified = () if tls is None else (tls.client_auth, tls.external_client_auth)
        if self.subject_mapping is not None and ClientAuth.REQUIRED not in certified:
            raise ValueError(
                "--subject-mapping is about certificates of clients, and no listener asks for them; give "
                "--tls-certificate, --tls-key and --tls-ca, and --tls-client-auth required"
            )
        given = {name: getattr(self, name) for name in ("token_keys", "token_issuer", "token_audience")}
        missing = [name for name, value in given.items() if value is None]
        if 0 < len(missing) < len(given) or (missing and "token_claim" in self.model_fields_set):
            raise ValueError(f"tokens need {_flags(given)} together; missing: {_flags(missing)}")
        if missing:
            return self
        if self.external_listen is None:
            raise ValueError(
                "--token-keys is for the clients of a second listener, and there is none; give "
                "--external-listen. The first one is for the processes of the cluster, which bring no tokens"
            )
        if tls is None and not self.external_listen.is_loopback:
            raise ValueError(
                f"tokens would travel to --external-listen {self.external_listen} in plaintext, and whoever "
                "reads one can use it; give --tls-certificate, --tls-key and --tls-ca"
            )
        if tls is not None and tls.external_client_auth is ClientAuth.REQUIRED:
            raise ValueError(
                "--token-keys is for clients without certificates, and the second listener asks for "
                "certificates; give --external-tls-client-auth none"
            )
        return self

    @model_validator(mode="after")
    def _knows_its_callers(self) -> Self:
        if self.super_users and self.authorization is Authorization.NONE:
            raise ValueError("--super-users is about ACLs, and there are none; give --authorization acls")
        for user in self.super_users:
            if not user.startswith("client/") or user == ANY_CLIENT:
                raise ValueError(f"the super user {user!r} is no client by name, such as client/admin")
        if self.authorization is Authorization.ACLS and (
            self.server_tls is None or self.tls_client_auth is ClientAuth.NONE
        ):
            raise ValueError(
                "--authorization acls needs to know who calls at --listen, where the other processes of the "
                "cluster call as well: give --tls-certificate, --tls-key and --tls-ca, and leave "
                "--tls-client-auth as required"
            )
        return self

    @classmethod
    def from_command_line(cls, arguments: Sequence[str] | None = None) -> Self:
        """Read flags, then the environment, then defaults. Mains call it first.

        `--help` prints and exits with 0; a bad value exits with 2 and one line that names the flag.
        """
        given = list(sys.argv[1:] if arguments is None else arguments)
        try:
            source = CliSettingsSource[Any](cls, add_argument_method=_add_argument)
            settings = CliApp.run(cls, cli_args=given, cli_settings_source=source)
            settings._told = told_by_name(cls, given)
            return settings
        except ValidationError as error:
            problems = "; ".join(_one_line(cls, problem) for problem in error.errors())
        except SettingsError as error:
            problems = str(error)
        program = cls.model_config.get("cli_prog_name") or cls.__name__
        print(f"{program}: error: {problems} (see {program} --help)", file=sys.stderr)
        sys.exit(2)


def _flags(names: Iterable[str]) -> str:
    flags = [f"--{name.replace('_', '-')}" for name in names]
    return f"{', '.join(flags[:-1])} and {flags[-1]}" if len(flags) > 1 else flags[0]


def _add_argument(parser: Any, *names: Any, **options: Any) -> Any:
    """Called by pydantic-settings for each flag, because the readers of `--help` need not know Python."""
    metavar = options.get("metavar")
    if isinstance(metavar, str):
        options["metavar"] = _METAVARS.get(metavar, metavar)
    if isinstance(options.get("help"), str):
        # Where there is none, the sentence says what holds instead.
        options["help"] = options["help"].replace(" (default: None)", "")
    return parser.add_argument(*names, **options)


def _one_line(settings: type[ServiceSettings], problem: Mapping[str, Any]) -> str:
    if not problem["loc"]:
        # Of the settings as a whole: our own sentence names the flags.
        return str(problem["msg"]).removeprefix("Value error, ")
    name = str(problem["loc"][0])
    flag = "--" + name.replace("_", "-")
    variable = f"{settings.model_config.get('env_prefix', '')}{name}".upper()
    if problem["type"] == "missing":
        return f"{flag} is missing; give it, or set {variable}"
    message = str(problem["msg"])
    if problem["type"] == "value_error":
        # Our own sentence, which shows the value already.
        return f"{flag} ({variable}): {message.removeprefix('Value error, ')}"
    given = repr(str(problem["input"])[:100])
    if problem["type"] == "int_parsing":
        return f"{flag} ({variable}): {given} is not a whole number"
    return f"{flag} ({variable}): {message}, not {given}"
