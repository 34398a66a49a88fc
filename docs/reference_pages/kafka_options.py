"""The table of docs/spark.md with Kafka's options, from the rules of the Spark source."""

from hightide_spark.core.kafka_options import RULES, KafkaRule

from reference_pages.markdown import code, table


def text() -> str:
    """The table: what is taken first, then what is refused, then what is ignored."""
    rows = [(_names(rule), rule.queries, rule.fate, _here(rule)) for rule in RULES]
    return table(("Kafka's option", "for", "here", "why, or what instead"), rows)


def _names(rule: KafkaRule) -> str:
    return ", ".join(map(code, rule.names))


def _here(rule: KafkaRule) -> str:
    here = rule.here
    if rule.unless is not None:
        here += f"; ignored if `{rule.unless}` is given"
    # The names of classes are in small letters there, to be compared.
    same = [each for each in rule.same if each and "." not in each]
    if same:
        here += (
            f"; {' and '.join(map(code, same))} {'ask' if len(same) > 1 else 'asks'} for what happens anyway"
        )
    return here
