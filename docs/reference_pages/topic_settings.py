"""configuration.md, the topics' part."""

from hightide_broker.cluster.topic_settings import _LOG_FIELDS, TopicSettings
from hightide_broker.storage import LogSettings
from hightide_runtime.topics.topic_configs import _RULES

from reference_pages.markdown import code, number, table

#: What each setting means. `section` holds it to the rules of the controller both ways.
_MEANINGS = {
    "min.insync.replicas": "A write with `acks=all` is refused while fewer replicas are in sync. A topic "
    "that is created with three replicas or more gets `2`, unless another value is given. For a topic "
    "without a value, the brokers' `--min-insync-replicas` counts, which is the default here.",
    "flush": "When a record counts as written. `replicated`: every in-sync replica has it in the memory "
    "of its operating system. `fsync`: every in-sync replica has it on disk, synced.",
    "retention.ms": "How long a segment is kept after its last append; -1: for ever.",
    "retention.bytes": "The size of a partition above which its oldest segments are deleted; -1: no limit.",
    "segment.bytes": "The size at which a new segment begins. Only whole segments are deleted.",
    "segment.ms": "The age at which a new segment begins.",
    "max.message.bytes": "The largest record batch that the leader accepts.",
    "index.interval.bytes": "The offset index has one entry for each so many bytes of log.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may lead if no in-sync replica "
    "is alive. This loses records. With `false` the partition waits, and an operator may decide.",
}


def section() -> str:
    """The settings of a topic: `--config`, `hightide topic alter --set`."""
    assert _MEANINGS.keys() == _RULES.keys(), _MEANINGS.keys() ^ _RULES.keys()
    log = LogSettings()
    defaults = {name: getattr(log, field) for name, (field, _, _) in _LOG_FIELDS.items()}
    defaults |= {
        "min.insync.replicas": TopicSettings().min_insync_replicas,
        "flush": log.flush.value,
        "unclean.leader.election.enable": "false",
    }
    rows = [
        (code(name), code(defaults[name]), _values(rule), _MEANINGS[name]) for name, rule in _RULES.items()
    ]
    return "## Topics\n\n" + table(("setting", "default", "values", "meaning"), rows)


def _values(rule: object) -> str:
    words = getattr(rule, "words", None)
    if words is not None:
        return " or ".join(map(code, words))
    most = rule.most  # type: ignore[attr-defined]
    least = number(rule.least)  # type: ignore[attr-defined]
    return f"at least {least}" if most == 2**63 - 1 else f"{least} to {number(most)}"
