"""Options that users of Kafka bring along: each of them is taken, ignored with a warning, or refused."""

from collections.abc import Mapping
from pathlib import Path

import pytest
from hightide_spark.core.kafka_options import PREFIX, RULES, KafkaRule
from hightide_spark.core.sink_options import WriteOptions, write_options
from hightide_spark.core.source_options import ReadOptions, batch_options, stream_options
from hightide_spark.errors import InvalidOptionError, UnknownOptionError

NAMES = Path(__file__).with_name("kafka_client_options.txt")
#: Of Spark's Kafka source, beside those that mean the same here.
OF_SPARK = {
    "kafkaConsumer.pollTimeoutMs",
    "fetchOffset.numRetries",
    "fetchOffset.retryIntervalMs",
    "groupIdPrefix",
}
#: Names of librdkafka for files, which users of its clients try.
OF_LIBRDKAFKA = {
    f"{PREFIX}{name}"
    for name in (
        *("ssl.ca.location", "ssl.certificate.location", "ssl.key.location", "ssl.ca.pem"),
        *("ssl.certificate.pem", "ssl.key.pem", "enable.ssl.certificate.verification"),
    )
}
BOOTSTRAP = {"kafka.bootstrap.servers": "broker:9092"}
#: Values without which some options that are taken cannot stand, with what else they need.
NEEDED: Mapping[str, Mapping[str, str]] = {
    "kafka.bootstrap.servers": {},
    "kafka.security.protocol": {"kafka.security.protocol": "PLAINTEXT"},
    "kafka.sasl.mechanism": {"kafka.sasl.mechanism": "OAUTHBEARER", "tokenFile": "t"},
    "kafka.ssl.certificate.location": {"kafka.ssl.certificate.location": "c", "tlsKey": "k", "tlsCa": "a"},
    "kafka.ssl.key.location": {"kafka.ssl.key.location": "k", "tlsCertificate": "c", "tlsCa": "a"},
    "kafka.ssl.truststore.location": {
        "kafka.ssl.truststore.location": "a",
        "kafka.ssl.truststore.type": "PEM",
    },
    "kafka.ssl.truststore.type": {"kafka.ssl.truststore.location": "a", "kafka.ssl.truststore.type": "PEM"},
    "kafka.ssl.keystore.location": {
        "kafka.ssl.keystore.location": "s",
        "kafka.ssl.keystore.type": "PEM",
        "tlsCa": "a",
    },
    "kafka.ssl.keystore.type": {
        "kafka.ssl.keystore.location": "s",
        "kafka.ssl.keystore.type": "PEM",
        "tlsCa": "a",
    },
    "kafka.compression.type": {"kafka.compression.type": "zstd"},
}
RULE_OF = {name: rule for rule in RULES for name in rule.names}


def reads(given: Mapping[str, str]) -> list[ReadOptions]:
    lower = {name.lower(): value for name, value in {**BOOTSTRAP, "subscribe": "t", **given}.items()}
    return [batch_options(lower).read, stream_options(lower).read]


def writes(given: Mapping[str, str]) -> list[WriteOptions]:
    lower = {name.lower(): value for name, value in {**BOOTSTRAP, **given}.items()}
    return [write_options(lower, is_streaming=streaming, overwrite=False) for streaming in (False, True)]


def concerns(rule: KafkaRule, kind: str) -> bool:
    return rule.queries in ("both", kind)


def test_each_option_of_kafka_has_one_rule_and_no_other_name_has_one() -> None:
    lines = NAMES.read_text().splitlines()
    of_kafka = {f"{PREFIX}{line}" for line in lines if not line.startswith("#")}
    names = [name for rule in RULES for name in rule.names]
    assert sorted(names) == sorted(of_kafka | OF_SPARK | OF_LIBRDKAFKA)


@pytest.mark.parametrize("name", sorted(RULE_OF))
def test_each_option_has_the_fate_of_its_rule_in_every_query(name: str) -> None:
    rule = RULE_OF[name]
    given = {name: "1"} if rule.fate != "taken" else NEEDED.get(name, {name: "1"})
    for kind, read in (("reads", reads), ("writes", writes)):
        if concerns(rule, kind) and rule.fate == "refused":
            with pytest.raises(UnknownOptionError, match="has no meaning for") as refused:
                read(given)
            assert name in str(refused.value)
            continue
        is_taken = concerns(rule, kind) and rule.fate == "taken"
        for options in read(given):
            assert bool(options.warnings) is not is_taken, f"{kind}: {options.warnings}"
            assert all(name in warning for warning in options.warnings)


@pytest.mark.parametrize(
    ("name", "value"), [(name, value) for name, rule in RULE_OF.items() for value in rule.same]
)
def test_a_value_that_asks_for_what_happens_anyway_is_not_worth_a_word(name: str, value: str) -> None:
    rule = RULE_OF[name]
    options = [*(reads({name: value}) if concerns(rule, "reads") else [])]
    warnings = [each.warnings for each in options]
    warnings += [each.warnings for each in writes({name: value.upper()})] if concerns(rule, "writes") else []
    assert warnings
    assert not any(warnings)


@pytest.mark.parametrize(
    ("name", "unless"), [(name, rule.unless) for name, rule in RULE_OF.items() if rule.unless is not None]
)
def test_a_secret_is_ignored_where_the_option_that_replaces_it_is_given_and_never_shown(
    name: str, unless: str
) -> None:
    tls = {"tlsCa": "a", "tlsCertificate": "c", "tlsKey": "k"} if unless.startswith("tls") else {}
    given = {name: "s3cret", unless: "f", **tls}
    for (warning,) in (*(each.warnings for each in reads(given)), *(each.warnings for each in writes(given))):
        assert warning.endswith(f"ignores {name}: {unless} is given")
    with pytest.raises(UnknownOptionError) as refused:
        reads({name: "s3cret"})
    assert "s3cret" not in str(refused.value)


def test_options_that_are_ignored_for_one_reason_share_a_warning() -> None:
    (write, _) = writes({"kafka.linger.ms": "10", "kafka.batch.size": "1", "kafka.acks": "1"})
    assert write.warnings == (
        "a write to hightide ignores kafka.acks: a row counts as written when all in-sync replicas have it",
        "a write to hightide ignores kafka.batch.size, kafka.linger.ms: a task gathers its rows to batches "
        "of some 2 MB itself",
    )


def test_a_job_of_kafka_keeps_its_options() -> None:
    pasted = {
        "kafka.bootstrap.servers": "broker:9092",
        "kafka.group.id": "dashboards",
        "kafka.isolation.level": "read_committed",
        "kafka.max.poll.records": "10000",
        "kafka.session.timeout.ms": "45000",
        "kafka.request.timeout.ms": "60000",
        "kafkaConsumer.pollTimeoutMs": "120000",
        "fetchOffset.numRetries": "5",
        "groupIdPrefix": "dashboards",
        "failOnDataLoss": "false",
        "startingOffsets": "earliest",
    }
    (batch, stream) = reads(pasted)
    assert batch.cluster == stream.cluster
    assert batch.cluster.bootstrap == "broker:9092"
    assert len(batch.warnings) == 4


@pytest.mark.parametrize(
    ("given", "size_bytes"),
    [
        ({}, 4 << 20),
        ({"kafka.max.partition.fetch.bytes": "8388608"}, 8 << 20),
        ({"kafka.max.partition.fetch.bytes": "8388608", "kafka.fetch.max.bytes": "1048576"}, 1 << 20),
        ({"kafka.fetch.max.bytes": "1"}, 64 << 10),
        ({"kafka.fetch.max.bytes": "2147483647"}, 16 << 20),
    ],
)
def test_the_smaller_size_of_a_fetch_counts_within_bounds(given: dict[str, str], size_bytes: int) -> None:
    assert [each.fetch_max_bytes for each in reads(given)] == [size_bytes] * 2


@pytest.mark.parametrize(
    ("word", "compression", "is_warned"),
    [("none", None, False), ("LZ4", "lz4", False), ("zstd", "zstd", False), ("snappy", None, True)],
)
def test_rows_are_compressed_if_there_is_that_compression(
    word: str, compression: str | None, is_warned: bool
) -> None:
    for options in writes({"kafka.compression.type": word}):
        assert (options.compression, bool(options.warnings)) == (compression, is_warned)


def test_what_is_taken_is_checked() -> None:
    for given in ({"kafka.compression.type": "brotli"}, {"kafka.delivery.timeout.ms": "0"}):
        with pytest.raises(InvalidOptionError):
            writes(given)
    assert [each.delivery_timeout_ms for each in writes({"kafka.delivery.timeout.ms": "5000"})] == [5_000] * 2


def test_a_name_that_kafka_does_not_know_is_refused_with_the_one_that_was_meant() -> None:
    with pytest.raises(UnknownOptionError, match=r"did you mean 'kafka\.isolation\.level'\?"):
        reads({"kafka.isolation.levels": "read_committed"})
