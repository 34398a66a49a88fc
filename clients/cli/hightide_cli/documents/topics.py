"""The documents of the commands about topics and groups, as `-o json` prints them."""

from hightide_cli.documents import values
from hightide_cli.documents.form import (
    Document,
    Field,
    field_of,
    fields_of,
    many,
    mapping,
    number,
    text,
    texts,
    whole,
    wholes,
)
from hightide_cli.documents.groups import (
    GroupDocument,
    ListedGroupDocument,
    ResetDocument,
    WatchedLagDocument,
)
from hightide_cli.documents.partitions import DescribedTopicDocument, ListedTopicDocument, TrimDocument

DRY_RUN = field_of("dry_run", values.DryRun)
TOPIC = field_of("topic", values.TopicName)
TOPIC_ID = field_of("topic_id", values.TopicId)
PARTITION = field_of("partition", values.PartitionNumber)
LEADER = field_of("leader", values.Leader)
LEADER_EPOCH = field_of("leader_epoch", values.LeaderEpoch)
REPLICAS = field_of("replicas", values.Replicas)
ISR = field_of("isr", values.Isr)
ERROR = field_of("error", values.ErrorCode)
GROUP = field_of("group", values.GroupName)

_CONFIGS = field_of("configs", values.Configs)


def _bytes(name: str, what: str) -> tuple[Field, Field]:
    return (
        text(name, f"{what}, where it is UTF-8; null where there is none").or_null.optional,
        text(
            f"{name}_base64", f"{what}, in base64, where it is not UTF-8; stands instead of `{name}`"
        ).optional,
    )


RECORD = (
    TOPIC,
    PARTITION,
    whole("offset", "its place in the partition"),
    whole("timestamp_us", "microseconds since 1970"),
    *_bytes("key", "the key"),
    *_bytes("value", "the value"),
    mapping(
        "headers",
        "the headers, with values as text, null for one without a value; absent where there are none",
    ).optional,
)
_SIZES = (
    whole("records", "how many can be read"),
    whole("bytes", "of the fullest replica of each partition, as they lie on disk"),
    whole("bytes_on_disk", "of all replicas together"),
)
_DELETED = (
    TOPIC,
    TOPIC_ID,
    whole("partitions", "how many it had"),
    whole("records", "how many it held"),
    whole("bytes", "of one replica of each partition"),
    wholes("absent_brokers", "brokers that are down, and delete their replicas when they start"),
)

TOPIC_DOCUMENTS: dict[str, tuple[Document, ...]] = {
    "topic create": (
        Document(
            fields_of(DescribedTopicDocument), "The topic as it is, or, with --dry-run, as it would be."
        ),
    ),
    "topic ls": (
        Document((many("topics", "all topics by name", *fields_of(ListedTopicDocument)),), "All topics."),
    ),
    "topic describe": (
        Document((many("topics", "in the order asked for", *fields_of(DescribedTopicDocument)),), "Topics."),
    ),
    "topic alter": (
        Document((DRY_RUN, TOPIC, _CONFIGS), "The settings of the topic that differ from the defaults."),
    ),
    "topic delete": (
        Document((DRY_RUN, many("deleted", "the topics that went", *_DELETED)), "What was deleted."),
    ),
    "topic add-partitions": (
        Document(
            (
                DRY_RUN,
                TOPIC,
                whole("partitions", "how many it has now"),
                many("added", "those that are new", PARTITION, LEADER, REPLICAS),
            ),
            "The new partitions.",
        ),
    ),
    "topic remove-partitions": (
        Document(
            (
                DRY_RUN,
                TOPIC,
                whole("partitions", "how many it has now"),
                wholes("removed", "the numbers of those that went"),
                whole("records", "how many went with them"),
                whole("bytes", "of one replica of each"),
            ),
            "What was removed.",
        ),
    ),
    "topic trim": (
        Document(
            fields_of(TrimDocument),
            "What was deleted of each partition.",
        ),
    ),
    "topic offsets": (
        Document(
            (
                TOPIC,
                many(
                    "partitions",
                    "all of them",
                    PARTITION,
                    whole("earliest", "the first offset that can be read"),
                    whole("latest", "the offset of the next record to be committed"),
                    whole("records", "how many there are in between"),
                    whole(
                        "at_time",
                        "the first offset at or after --at; null where none is that late; only with --at",
                    ).or_null.optional,
                ),
            ),
            "From where to where partitions go.",
        ),
    ),
    "topic size": (
        Document(
            (
                many(
                    "topics",
                    "all, or those that were named",
                    TOPIC,
                    TOPIC_ID,
                    *_SIZES,
                    many("partitions", "each with its part", PARTITION, *_SIZES),
                ),
                wholes("silent_brokers", "brokers that did not answer, so that theirs is not counted"),
            ),
            "How much topics hold.",
        ),
    ),
    "topic isr-watch": (
        Document(
            (
                whole("at_ms", "when it was seen, milliseconds since 1970"),
                TOPIC,
                PARTITION,
                LEADER,
                LEADER_EPOCH,
                REPLICAS,
                ISR,
                wholes("joined", "brokers that came into sync since the last look"),
                wholes("left", "brokers that fell out of sync since the last look"),
            ),
            "A change of a leader or an ISR.",
            is_stream=True,
        ),
    ),
    "topic produce": (
        Document(
            (
                TOPIC,
                whole("records", "how many were acknowledged"),
                many(
                    "partitions",
                    "where they went",
                    PARTITION,
                    whole("first_offset", "of the first; -1 where the broker does not tell, with --acks 0"),
                    whole("last_offset", "of the last, among which may be others' records"),
                ),
            ),
            "What was written.",
        ),
    ),
    "topic consume": (Document(RECORD, "A record.", is_stream=True),),
    "topic get": (Document(RECORD, "The record."),),
    "topic grep": (
        Document(RECORD, "A record that matches.", is_stream=True),
        Document((TOPIC, whole("records", "how many match")), "Their number.", when="with --count"),
    ),
    "topic copy": (
        Document(
            (
                DRY_RUN,
                text("source", "the topic that is copied"),
                text("target", "the topic that it is copied to"),
                many(
                    "partitions",
                    "the source's that are meant",
                    PARTITION,
                    whole("start", "the first offset of the source that this run copies"),
                    whole("end", "the offset before which it stops"),
                    whole("records", "how many that are"),
                ),
                whole("records", "how many were copied, or would be"),
                whole("bytes", "of them, as they lie in memory; absent with --dry-run").optional,
                number("seconds", "how long it took; absent with --dry-run").optional,
            ),
            "What this run copied.",
        ),
    ),
}

GROUP_DOCUMENTS: dict[str, tuple[Document, ...]] = {
    "group ls": (
        Document(
            (
                many(
                    "groups",
                    "all groups by name",
                    *fields_of(ListedGroupDocument),
                ),
            ),
            "All groups.",
        ),
    ),
    "group describe": (
        Document(
            (
                many(
                    "groups",
                    "in the order asked for",
                    *fields_of(GroupDocument),
                ),
            ),
            "Groups with members and lag.",
        ),
    ),
    "group lag": (
        Document(fields_of(WatchedLagDocument), "How far the group is behind; with --watch, one a look."),
    ),
    "group delete": (
        Document(
            (
                DRY_RUN,
                many("deleted", "the groups that went", GROUP, whole("offsets", "how many it had committed")),
            ),
            "What was deleted.",
        ),
    ),
    "group delete-offsets": (
        Document(
            (
                DRY_RUN,
                GROUP,
                texts("topics", "whose offsets were meant"),
                whole("offsets", "how many were forgotten"),
            ),
            "What was forgotten.",
        ),
    ),
    "group commit": (
        Document(
            (
                DRY_RUN,
                GROUP,
                many(
                    "partitions",
                    "in the order given",
                    TOPIC,
                    PARTITION,
                    whole("previous", "what was committed before; null where nothing was").or_null,
                    whole("committed", "what is committed now"),
                ),
            ),
            "What was committed.",
        ),
    ),
    "group reset-offsets": (
        Document(
            fields_of(ResetDocument),
            "Where the group goes on.",
        ),
    ),
}
