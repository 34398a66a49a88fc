"""Options of Kafka's clients and of Spark's Kafka source that users bring along, and what becomes of each.

`RULES` is the one table: reads and writes look here, and docs/spark.md shows it. An option is

- taken, if there is the same here: it is an `Option` under Kafka's name, or an alias of one;
- ignored with a warning, if a query gives the same rows without it;
- refused, if ignoring it would change which rows are read or written, or who may do so.

The names are those of the Java clients of Kafka 4.3.1; tests/unit/spark/kafka_client_options.txt lists them.
"""

from dataclasses import dataclass
from typing import Final, Literal

from hightide_spark.core.cluster_options import TLS_CA, TLS_CERTIFICATE, TLS_KEY, TOKEN_FILE
from hightide_spark.core.option_table import ForeignOption

Queries = Literal["reads", "writes", "both"]
Fate = Literal["taken", "ignored", "refused"]

PREFIX: Final = "kafka."


@dataclass(frozen=True, slots=True)
class KafkaRule:
    """What becomes of some options, which have the same meaning here or the same reason."""

    names: tuple[str, ...]
    """As users write them, with `kafka.` before the names of client options."""
    queries: Queries
    """The queries that it concerns. A query of the other kind ignores a client option."""
    fate: Fate
    here: str
    """What the option is here, or why it is ignored, or what to use instead: a clause, for users."""
    same: tuple[str, ...] = ()
    """Values that ask for what happens anyway. With them nothing is refused, and there is no warning."""
    unless: str | None = None
    """An option of ours that replaces a refused one: if it is given, the refused one is ignored."""


def _client(names: str) -> tuple[str, ...]:
    return tuple(PREFIX + name for name in names.split())


def _files(names: str, option: str) -> KafkaRule:
    """Options that hold what is in a file here."""
    here = f"write it into a file that only its user can read, and give the path in {option}"
    return KafkaRule(_client(names), "both", "refused", here, unless=option)


_TAKEN: Final = (
    KafkaRule(_client("bootstrap.servers"), "both", "taken", "the same as `bootstrap.servers`"),
    KafkaRule(
        _client("client.id"), "both", "taken", "the name of this client in its calls, for logs and traces"
    ),
    KafkaRule(
        _client("security.protocol"),
        "both",
        "taken",
        "`PLAINTEXT`, `SSL`, or `SASL_SSL` with a `tokenFile`; it must agree with the files that are given",
    ),
    KafkaRule(
        _client("sasl.mechanism"), "both", "taken", "`OAUTHBEARER`, for which `tokenFile` has the token"
    ),
    KafkaRule(_client("ssl.ca.location"), "both", "taken", "librdkafka's name of `tlsCa`"),
    KafkaRule(
        _client("ssl.certificate.location ssl.key.location"),
        "both",
        "taken",
        "librdkafka's names of `tlsCertificate` and `tlsKey`",
    ),
    KafkaRule(
        _client("ssl.truststore.location ssl.truststore.type"), "both", "taken", "`tlsCa`, if the type is PEM"
    ),
    KafkaRule(
        _client("ssl.keystore.location ssl.keystore.type"),
        "both",
        "taken",
        "`tlsCertificate` and `tlsKey` in one file, if the type is PEM",
    ),
    KafkaRule(
        _client("fetch.max.bytes max.partition.fetch.bytes"),
        "reads",
        "taken",
        "the size of one fetch, which has records of one partition; the smaller one counts, and 64 KiB to "
        "16 MiB are possible",
    ),
    KafkaRule(
        _client("compression.type"),
        "writes",
        "taken",
        "`none`, `lz4` or `zstd`; `gzip` and `snappy` are ignored, and the rows are not compressed",
    ),
    KafkaRule(
        _client("delivery.timeout.ms"),
        "writes",
        "taken",
        "the time in which a row is written or its task fails",
    ),
)

_REFUSED: Final = (
    KafkaRule(
        _client("auto.offset.reset"),
        "reads",
        "refused",
        "say where to start in startingOffsets, and what to do about lost records in failOnDataLoss",
    ),
    KafkaRule(
        _client("key.deserializer value.deserializer"),
        "reads",
        "refused",
        "key and value are columns of bytes; use CAST(value AS STRING), from_json, from_avro",
        same=("org.apache.kafka.common.serialization.bytearraydeserializer",),
    ),
    KafkaRule(
        _client("key.serializer value.serializer"),
        "writes",
        "refused",
        "key and value are columns of strings or bytes; use to_json, to_avro",
        same=(
            "org.apache.kafka.common.serialization.bytearrayserializer",
            "org.apache.kafka.common.serialization.stringserializer",
        ),
    ),
    KafkaRule(
        _client("interceptor.classes"),
        "both",
        "refused",
        "change rows in the query: no class of Kafka is run",
        same=("",),
    ),
    KafkaRule(
        _client("config.providers"),
        "both",
        "refused",
        "values are taken as they stand; write them without ${…}",
        same=("",),
    ),
    KafkaRule(
        _client("partitioner.class"),
        "writes",
        "refused",
        "a row goes to the partition of its column partition, else by the hash of its key",
        same=("",),
    ),
    KafkaRule(
        _client("partitioner.ignore.keys"),
        "writes",
        "refused",
        "a row goes to the partition of its column partition, else by the hash of its key",
        same=("false",),
    ),
    KafkaRule(
        _client("transactional.id"),
        "writes",
        "refused",
        "there are no transactions; a batch that may be repeated has txnAppId and txnVersion",
    ),
    _files("ssl.truststore.certificates ssl.ca.pem", TLS_CA.name),
    _files("ssl.keystore.certificate.chain ssl.certificate.pem", TLS_CERTIFICATE.name),
    _files("ssl.keystore.key ssl.key.pem", TLS_KEY.name),
    _files(
        "sasl.jaas.config sasl.oauthbearer.client.credentials.client.secret "
        "sasl.oauthbearer.assertion.private.key.file sasl.oauthbearer.assertion.private.key.passphrase "
        "sasl.oauthbearer.assertion.file",
        TOKEN_FILE.name,
    ),
    KafkaRule(
        _client("sasl.oauthbearer.token.endpoint.url sasl.oauthbearer.client.credentials.client.id"),
        "both",
        "refused",
        "fetch the token by a program of your own, write it into a file that only its user can read, and "
        f"give the path in {TOKEN_FILE.name}",
        unless=TOKEN_FILE.name,
    ),
)

_IGNORED: Final = (
    KafkaRule(
        _client("isolation.level"),
        "reads",
        "ignored",
        "there are no transactions, and a read finds what is committed",
        same=("read_committed", "read_uncommitted"),
    ),
    KafkaRule(
        (*_client("group.id group.instance.id group.protocol group.remote.assignor"), "groupIdPrefix"),
        "reads",
        "ignored",
        "a read is a member of no group; groupId names one to which a stream publishes how far it is",
    ),
    KafkaRule(
        _client(
            "session.timeout.ms heartbeat.interval.ms max.poll.interval.ms partition.assignment.strategy "
            "share.acknowledgement.mode share.acquire.mode internal.throw.on.fetch.stable.offset.unsupported"
        ),
        "reads",
        "ignored",
        "a read is a member of no group",
    ),
    KafkaRule(
        _client("enable.auto.commit auto.commit.interval.ms"),
        "reads",
        "ignored",
        "Spark keeps the offsets in its checkpoint; groupId publishes them",
        same=("false",),
    ),
    KafkaRule(
        (
            *_client("max.poll.records fetch.min.bytes fetch.max.wait.ms"),
            *("kafkaConsumer.pollTimeoutMs", "fetchOffset.numRetries", "fetchOffset.retryIntervalMs"),
        ),
        "reads",
        "ignored",
        "a task reads a range of records that are there, in batches, and repeats what fails for a minute",
    ),
    KafkaRule(_client("check.crcs"), "reads", "ignored", "sums are always checked", same=("true",)),
    KafkaRule(
        _client("allow.auto.create.topics"),
        "reads",
        "ignored",
        "a topic is never created by a read",
        same=("false",),
    ),
    KafkaRule(_client("exclude.internal.topics"), "reads", "ignored", "there are none", same=("true",)),
    KafkaRule(_client("client.rack"), "reads", "ignored", "a task reads from the leader"),
    KafkaRule(
        _client("acks"),
        "writes",
        "ignored",
        "a row counts as written when all in-sync replicas have it",
        same=("all", "-1"),
    ),
    KafkaRule(
        _client("enable.idempotence"),
        "writes",
        "ignored",
        "no row is written twice; delivery=at-least-once lets a repeated task write its rows again",
        same=("true",),
    ),
    KafkaRule(
        _client(
            "retries max.in.flight.requests.per.connection transaction.timeout.ms "
            "transaction.two.phase.commit.enable max.block.ms"
        ),
        "writes",
        "ignored",
        "what fails is repeated, in order, until kafka.delivery.timeout.ms",
    ),
    KafkaRule(
        _client("linger.ms batch.size buffer.memory"),
        "writes",
        "ignored",
        "a task gathers its rows to batches of some 2 MB itself",
    ),
    KafkaRule(
        _client("max.request.size"), "writes", "ignored", "max.message.bytes of the topic is the limit"
    ),
    KafkaRule(
        _client("compression.gzip.level compression.lz4.level compression.zstd.level"),
        "writes",
        "ignored",
        "each compression has one level",
    ),
    KafkaRule(
        _client("partitioner.adaptive.partitioning.enable partitioner.availability.timeout.ms"),
        "writes",
        "ignored",
        "a row goes to the partition of its column partition, else by the hash of its key or value",
    ),
    KafkaRule(
        _client("ssl.truststore.password"), "both", "ignored", "a PEM file of certificates has no password"
    ),
    KafkaRule(
        _client("ssl.key.password ssl.keystore.password"),
        "both",
        "ignored",
        "keys have no password here; `openssl pkey -in OLD -out NEW` writes one without",
    ),
    KafkaRule(
        _client("ssl.endpoint.identification.algorithm"),
        "both",
        "ignored",
        "the name of a server is always checked",
        same=("https",),
    ),
    KafkaRule(
        _client("enable.ssl.certificate.verification"),
        "both",
        "ignored",
        "servers are always checked",
        same=("true",),
    ),
    KafkaRule(
        _client(
            "ssl.cipher.suites ssl.enabled.protocols ssl.protocol ssl.provider ssl.engine.factory.class "
            "ssl.keymanager.algorithm ssl.trustmanager.algorithm ssl.secure.random.implementation "
            "security.providers"
        ),
        "both",
        "ignored",
        "gRPC chooses them: TLS 1.2 or later, with the CA of tlsCa",
    ),
    KafkaRule(
        _client(
            "sasl.client.callback.handler.class sasl.login.callback.handler.class sasl.login.class "
            "sasl.login.connect.timeout.ms sasl.login.read.timeout.ms sasl.login.refresh.buffer.seconds "
            "sasl.login.refresh.min.period.seconds sasl.login.refresh.window.factor "
            "sasl.login.refresh.window.jitter sasl.login.retry.backoff.max.ms sasl.login.retry.backoff.ms "
            "sasl.kerberos.kinit.cmd sasl.kerberos.min.time.before.relogin sasl.kerberos.service.name "
            "sasl.kerberos.ticket.renew.jitter sasl.kerberos.ticket.renew.window.factor "
            "sasl.oauthbearer.assertion.algorithm sasl.oauthbearer.assertion.claim.aud "
            "sasl.oauthbearer.assertion.claim.exp.seconds sasl.oauthbearer.assertion.claim.iss "
            "sasl.oauthbearer.assertion.claim.jti.include sasl.oauthbearer.assertion.claim.nbf.seconds "
            "sasl.oauthbearer.assertion.claim.sub sasl.oauthbearer.assertion.template.file "
            "sasl.oauthbearer.clock.skew.seconds sasl.oauthbearer.expected.audience "
            "sasl.oauthbearer.expected.issuer sasl.oauthbearer.header.urlencode "
            "sasl.oauthbearer.jwks.endpoint.refresh.ms sasl.oauthbearer.jwks.endpoint.retry.backoff.max.ms "
            "sasl.oauthbearer.jwks.endpoint.retry.backoff.ms sasl.oauthbearer.jwks.endpoint.url "
            "sasl.oauthbearer.jwt.retriever.class sasl.oauthbearer.jwt.validator.class "
            "sasl.oauthbearer.scope sasl.oauthbearer.scope.claim.name sasl.oauthbearer.sub.claim.name"
        ),
        "both",
        "ignored",
        "a token is read from tokenFile, and brokers check it",
    ),
    KafkaRule(
        _client(
            "bootstrap.controllers client.dns.lookup connections.max.idle.ms default.api.timeout.ms "
            "enable.metrics.push metadata.max.age.ms metadata.max.idle.ms "
            "metadata.recovery.rebootstrap.trigger.ms metadata.recovery.strategy metric.reporters "
            "metrics.num.samples metrics.recording.level metrics.sample.window.ms receive.buffer.bytes "
            "reconnect.backoff.max.ms reconnect.backoff.ms request.timeout.ms retry.backoff.max.ms "
            "retry.backoff.ms send.buffer.bytes socket.connection.setup.timeout.max.ms "
            "socket.connection.setup.timeout.ms"
        ),
        "both",
        "ignored",
        "connections, retries and metrics are those of Hightide's client",
    ),
)

RULES: Final = (*_TAKEN, *_REFUSED, *_IGNORED)


def foreign_options(queries: Literal["reads", "writes"]) -> dict[str, ForeignOption]:
    """The rules for the names that this kind of query does not take, for its `OptionTable`."""
    found: dict[str, ForeignOption] = {}
    for rule in RULES:
        if rule.queries not in ("both", queries):
            there = ForeignOption(f"it is for {rule.queries}")
        elif rule.fate == "taken":
            continue
        else:
            there = ForeignOption(rule.here, rule.fate == "refused", frozenset(rule.same), rule.unless)
        found |= dict.fromkeys(rule.names, there)
    return found
