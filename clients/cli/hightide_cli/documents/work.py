"""The documents of the commands that run something for a while, or look into files, as `-o json` has them."""

from hightide_cli.documents.cluster import CertificateDocument, LocalProcessDocument
from hightide_cli.documents.form import (
    Document,
    Field,
    fields_of,
    flag,
    many,
    mapping,
    number,
    one,
    text,
    texts,
    whole,
)
from hightide_cli.documents.topics import PARTITION

_LOAD = number("load_average", "of this machine over the last minute, at the end")
_ROUNDS = whole("rounds", "whose medians the figures are")
_RECORD_BYTES = whole("record_bytes", "of each value")


def _figures(names: tuple[str, ...]) -> tuple[Field, ...]:
    return tuple(number(name, f"{_meaning(name)}; null where it was not measured").or_null for name in names)


def _meaning(name: str) -> str:
    rate, per, amount = name.partition("_per_")
    if per:
        many_of = {"mb": "MB (10⁶ bytes)"}.get(
            rate, rate.replace("_", " ").replace(" cpu s", " CPU, seconds")
        )
        return f"{many_of}, {({'s': 'a second', 'gb': 'for each GB (10⁹ bytes)'}).get(amount, f'a {amount}')}"
    words, _, unit = name.rpartition("_")
    named = {"ms": "in milliseconds", "s": "in seconds", "mb": "in MB (10⁶ bytes)", "percent": "in percent"}
    return f"{words.replace('_', ' ')} {named[unit]}" if words and unit in named else name.replace("_", " ")


_THROUGHPUT = _figures(
    (
        *("records_per_s", "mb_per_s", "p50_ms", "p99_ms", "p999_ms"),
        *("client_cpu_s_per_gb", "broker_cpu_s_per_gb"),
    )
)
_FAILOVER = _figures(
    (
        *("create_ms", "settle_s", "idle_cpu_percent", "zookeeper_idle_cpu_percent", "broker_rss_mb"),
        *("controller_rss_mb", "zookeeper_rss_mb", "detect_ms", "elect_ms", "zookeeper_ms", "fan_out_ms"),
        *("all_led_ms", "first_commit_ms", "multis_refused", "failover_cpu_s", "unavailable_ms_max"),
        *("unavailable_ms_p50", "rejoin_ms", "takeover_ms", "lost", "duplicated", "client_errors"),
    )
)
_GROUPS = _figures(
    (
        *("join_ms", "steady_core_percent", "rebalance_ms", "failover_ms", "bytes_per_consumer", "joined_ms"),
        *("join_disturbed", "leave_ms", "leave_disturbed", "pings_per_s", "steady_client_percent"),
        *("steady_zookeeper_percent", "join_core_s", "rebalance_moved", "rebalance_core_s"),
        *("rebalance_client_s", "rebalance_zookeeper_s", "failover_core_s", "failover_client_s"),
        *("failover_stopped", "failover_look_ups", "failover_attempts", "client_errors"),
    )
)
_BENCHMARK = text("benchmark", "which one")


def _spread(name: str, meaning: str) -> Field:
    """What some rounds measured."""
    return one(
        name,
        f"{meaning}; null where it was not measured",
        number("median", "of the rounds"),
        number("low", "the lowest"),
        number("high", "the highest"),
    ).or_null


_SPARK = (
    _BENCHMARK,
    whole("workers", "threads of Spark"),
    _RECORD_BYTES,
    whole("size_mb", "of values, in each topic and round"),
    _ROUNDS,
    _LOAD,
)
_TLS = tuple(
    number(key, "as in the table")
    for key in (
        *("produce_mb_per_s", "produce_client_cpu_s_per_gb", "produce_broker_cpu_s_per_gb"),
        *("e2e_p50_ms", "e2e_p99_ms", "connect_p50_ms"),
    )
)
_BY_PARTITIONS = mapping("partitions", "the same figures for each number of partitions", "object")
_KILL = (
    text("killed", "which process"),
    whole("rows_before", "how many rows had been written"),
)

_CERTIFICATE = fields_of(CertificateDocument)

WORK_DOCUMENTS: dict[str, tuple[Document, ...]] = {
    "certs ca": (Document(_CERTIFICATE, "The certificate of the new CA."),),
    "certs issue": (Document(_CERTIFICATE, "The new certificate."),),
    "certs show": (Document(_CERTIFICATE, "The first certificate of the file."),),
    "dev up": (
        Document(
            (
                text("bootstrap", "the brokers' addresses"),
                text("directory", "where the cluster keeps its files"),
                text("tls_ca", "the CA of a cluster with TLS; null of one without").or_null,
                text("tls_certificate", "a certificate for clients; null without TLS").or_null,
                text("tls_key", "its key; null without TLS").or_null,
            ),
            "The cluster that runs now.",
        ),
    ),
    "dev down": (Document((texts("stopped", "the processes that were ended"),), "What was stopped."),),
    "dev status": (
        Document(
            (many("processes", "of the cluster", *fields_of(LocalProcessDocument)),),
            "The processes of the cluster.",
        ),
    ),
    "demo": (
        Document(
            (
                whole("produced", "rows that were acknowledged"),
                whole("consumed", "rows that were read back"),
                whole("lost", "acknowledged and not read"),
                whole("duplicated", "read more than once"),
                whole("reordered", "read in another order than written"),
                whole("foreign", "read and never written"),
                whole("failovers", "leaders that were killed"),
                number("unavailable_ms_max", "the longest that a partition acknowledged nothing"),
                many(
                    "kills",
                    "of brokers and controllers",
                    *_KILL,
                    text("successor", "who took over").or_null,
                    number("recovered_ms", "until it had").or_null,
                    Field("waits_ms", "array", "of each partition", items="number"),
                ),
                mapping("spark", "what Spark found of it", "any"),
                mapping("groups", "what became of the consumer group", "any"),
            ),
            "What the demo counted.",
        ),
    ),
    "bench produce": (
        Document(
            (
                _BENCHMARK,
                text("api", "send or send_arrow"),
                _RECORD_BYTES,
                text("acks", "as said"),
                _ROUNDS,
                _LOAD,
                number(
                    "tracing_ratio",
                    "records a second with tracing for each without; only with --tracing on,off",
                ).optional,
                *_THROUGHPUT,
                one(
                    "untraced", "the same figures without tracing; only with --tracing on,off", *_THROUGHPUT
                ).optional,
            ),
            "The figures.",
        ),
    ),
    "bench consume": (
        Document(
            (
                _BENCHMARK,
                text("as", "the form of the figures at the top"),
                _RECORD_BYTES,
                _ROUNDS,
                _LOAD,
                *_THROUGHPUT,
                one("records", "the same figures for records; only with --as both", *_THROUGHPUT).optional,
            ),
            "The figures.",
        ),
    ),
    "bench e2e": (Document((_BENCHMARK, _RECORD_BYTES, _ROUNDS, _LOAD, *_THROUGHPUT), "The figures."),),
    "bench tls": (
        Document(
            (
                _BENCHMARK,
                _RECORD_BYTES,
                _ROUNDS,
                _LOAD,
                one("plaintext", "the figures without TLS", *_TLS),
                one("tls", "those with TLS", *_TLS),
                one("ratio", "TLS divided by plaintext, the median over the rounds", *_TLS),
            ),
            "The figures.",
        ),
    ),
    "bench verify": (
        Document(
            (
                _BENCHMARK,
                text("topic", "where the records are; gone where all is well, unless --keep"),
                whole("partitions", "how many there were"),
                text("acks", "as said"),
                whole("acknowledged", "records that must come back"),
                whole("unsure", "records that were not acknowledged, which may come back"),
                whole("read", "records that came back"),
                whole("lost", "acknowledged, and did not come back"),
                whole("duplicated", "came back more than once"),
                whole("reordered", "came back after a later one of their partition"),
                whole("foreign", "came back, and were not sent by this run"),
                number("unavailable_ms_max", "the longest that a partition acknowledged nothing"),
                texts("examples", "the first that are wrong, a sentence each"),
                text("first_error", "why the first was not acknowledged; null where all were").or_null,
            ),
            "What was found.",
        ),
    ),
    "bench faults": (
        Document(
            (
                _BENCHMARK,
                whole("seed", "what was done to whom follows from it"),
                text("flush", "of the topics: replicated or fsync"),
                number("seconds", "how long it took"),
                whole("seasons", "topics that were judged, each after so many seconds of faults"),
                mapping("faults", "how often each kind was done", "integer"),
                whole("acknowledged", "records that must be there, once and in order"),
                whole("read", "records that were read, by all readers together"),
                number("slowest_ms", "the longest wait of a record for its acknowledgement"),
                whole("violations", "0, or 1: the campaign ends with the first"),
                text("violation", "what was wrong; null where nothing was").or_null,
            ),
            "What was found.",
        ),
    ),
    "bench failover": (
        Document(
            (
                _BENCHMARK,
                whole("partitions", "how many there were"),
                whole("topics", "how many they were spread over"),
                text("signal", "that ended the broker"),
                _ROUNDS,
                _LOAD,
                *_FAILOVER,
            ),
            "The figures of one number of partitions; with --scale, one each.",
            is_stream=True,
        ),
    ),
    "bench groups": (
        Document(
            (
                _BENCHMARK,
                whole("consumers", "how many there were"),
                whole("groups", "how many they were in"),
                whole("session_timeout_ms", "as said"),
                whole("moving_percent", "consumers that read"),
                whole("streams_per_connection", "as said"),
                whole("client_processes", "in which they ran"),
                _LOAD,
                *_GROUPS,
            ),
            "The figures.",
        ),
    ),
    "bench peers": (
        Document(
            (
                _BENCHMARK,
                text("kafka", "the version of Apache Kafka"),
                text("confluent_kafka", "the version of its client"),
                _ROUNDS,
                number("seconds", "of each measurement"),
                whole("size_mb", "of values, in topics that are read"),
                whole("partitions", "in the rows with many"),
                _LOAD,
                many(
                    "lines",
                    "of the table: one for each figure of a row",
                    text("row", "the row"),
                    text("figure", "what was measured"),
                    text("better", "higher or lower"),
                    _spread("hightide", "Hightide's figure"),
                    _spread("kafka_default", "that of Kafka with a client's defaults"),
                    _spread("kafka_tuned", "that of Kafka with a tuned client"),
                    _spread("ratio", "how many times as good Hightide is as the better of the two"),
                    text("against", "the Kafka of the ratio").or_null,
                ),
                texts("failures", "what could not be measured, and why, a sentence each"),
            ),
            "The table.",
        ),
    ),
    "bench spark-read": (
        Document((*_SPARK, *_figures(("rows_per_s", "mb_per_s")), _BY_PARTITIONS), "The best figures."),
    ),
    "bench spark-write": (
        Document((*_SPARK, *_figures(("rows_per_s", "mb_per_s")), _BY_PARTITIONS), "The best figures."),
    ),
    "bench spark-stream": (
        Document(
            (
                *_SPARK,
                *_figures(("batch_overhead_ms", "batch_ms", "rate_batch_ms", "catch_up_rows_per_s")),
                _BY_PARTITIONS,
            ),
            "The best figures.",
        ),
    ),
    "dump-log": (
        Document(
            (
                text("file", "the segment"),
                whole("position", "where in the file"),
                flag("valid", "true"),
                whole("base_offset", "of the first record"),
                whole("record_count", "how many there are"),
                whole("size_bytes", "of the batch"),
                whole("leader_epoch", "in which it was written"),
                text("topic_id", "32 hexadecimal digits"),
                PARTITION,
                whole("first_timestamp_us", "of the first record"),
                whole("max_timestamp_us", "the latest of all"),
                whole("producer_id", "-1: not idempotent, as with the next two"),
                whole("producer_epoch", "of the producer"),
                whole("base_sequence", "of the first record"),
                text("compression", "none, lz4 or zstd"),
                flag("has_headers", "whether a record has headers"),
                whole("crc", "CRC-32C of the batch"),
            ),
            "A batch.",
            is_stream=True,
        ),
        Document(
            (
                text("file", "the segment"),
                whole("position", "where in the file"),
                flag("valid", "false"),
                text("reason", "what is wrong"),
            ),
            "Damage, behind which nothing of the file can be read.",
            when="where a file is damaged",
        ),
    ),
    "dump-index": (
        Document(
            (
                text("file", "the file"),
                text("kind", "offset_index, time_index, leader_epochs or producers"),
                flag("valid", "whether it can be used as it is"),
                text("reason", "what is wrong; null where nothing is").or_null,
                whole("entry_count", "how many entries it has"),
                Field(
                    "entries",
                    "array",
                    "the entries, or the last ones, with the columns of its kind",
                    "object",
                ),
            ),
            "A file.",
            is_stream=True,
        ),
    ),
}
