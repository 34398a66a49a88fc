"""configuration.md, the topics' part."""

from hightide_broker.cluster.topic_settings import _LOG_FIELDS, TopicSettings
from hightide_broker.storage import LogSettings
from hightide_controller.core.values.topic_configs import _RULES

from reference_pages.markdown import code, number, table

#: What each setting means. `section` holds it to the rules of the controller both ways.
_MEANINGS = {
    "min.insync.replicas": "`acks=all` is refused while fewer replicas are in sync. A topic that is created "
    "with three replicas or more and does not say gets `2` of its own. For one that has none the brokers' "
    "`--min-insync-replicas` counts, which is the default here.",
    "flush": "When a record counts as written. `replicated`: every in-sync replica has it in memory of the "
    "operating system. `fsync`: every in-sync replica has it on disk.",
    "retention.ms": "How long records stay after the last append to their segment; -1: for ever.",
    "retention.bytes": "How large a partition may grow before its oldest segments go; -1: without limit.",
    "segment.bytes": "The size at which a new segment begins. Only whole segments are deleted.",
    "segment.ms": "The age at which a new segment begins.",
    "max.message.bytes": "The largest record batch that the leader takes.",
    "index.interval.bytes": "One entry of the offset index for so many bytes of log.",
    "unclean.leader.election.enable": "Whether a replica that is not in sync may lead where no in-sync one "
    "is alive. Loses records. Without it the partition waits, and an operator may decide.",
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
