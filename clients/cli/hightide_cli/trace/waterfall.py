"""Draws one trace as a waterfall: each process's steps with their start and duration."""

from collections.abc import Iterator
from datetime import UTC, datetime

from hightide_local.traces.trace_accounts import TraceAccount, account_of, is_wait
from hightide_local.traces.trace_lookup import SpanNode, SpanRecord, Trace
from hightide_runtime.telemetry import span_kinds

from hightide_cli.printing.rendering import table

BAR_WIDTH = 40
_SHOWN_ATTRIBUTES_MAX = 4
_TOPICS_MAX = 3
_BLOCK = "█"
_MOMENT = "▏"
_LATER = "→"


def waterfall(trace: Trace) -> str:
    """Return a heading, one line for each span, children below their parents, in order of start, and a
    concluding sentence. Times count from the zero of that sentence.

    Called by `hightide trace show`.
    """
    account = account_of(trace)
    total_us = max(end_of_interest(trace, account) - trace.start_us, 1)
    origin_us = trace.start_us if account is None else account.start_us
    rows = [
        (
            "  " * depth + span.name,
            process_of(span),
            f"{(span.start_us - origin_us) / 1000:>9.1f}",
            f"{span.duration_us / 1000:>9.1f}",
            _bar(span, trace.start_us, total_us),
            _details(span),
        )
        for span, depth in in_tree_order(trace.roots)
    ]
    drawn = table(["span", "process", "    at ms", "  took ms", "", ""], rows)
    return "\n\n".join(part for part in (heading(trace), drawn, conclusion(trace)) if part)


def end_of_interest(trace: Trace, account: TraceAccount | None) -> int:
    """Return where a drawing may end: a leader without traffic waits for its first commit for hours, and a
    client may come to a partition long after its leader changed."""
    if account is None:
        return trace.end_us
    felt = [span.end_us for span in trace.spans if is_wait(span) and span.start_us <= account.end_us]
    root = [trace.root.end_us] if trace.root.name == trace.kind else []
    return max(account.end_us, *felt, *root, account.start_us + 1)


def heading(trace: Trace) -> str:
    """Return the kind of a trace, its start and its duration, on one line."""
    return f"{title(trace)} · {started_at(trace)} · {took_ms(trace):.1f} ms · trace {trace.trace_id}"


def took_ms(trace: Trace) -> float:
    """Return the duration, without spans that came much later."""
    return (end_of_interest(trace, account_of(trace)) - trace.start_us) / 1000


def conclusion(trace: Trace) -> str:
    """Return where the time went, and which clients waited; nothing if that is not known."""
    account = account_of(trace)
    lines = [] if account is None else [account.sentence]
    waits = sorted((span for span in trace.spans if is_wait(span)), key=lambda span: -span.duration_us)
    if waits:
        longest = waits[0]
        count = longest.attributes.get("partition_count", "?")
        lines.append(
            f"clients waited up to {longest.duration_us / 1000:.0f} ms: {longest.name}, "
            f"{count} partition{'' if count == 1 else 's'}, {process_of(longest)}"
        )
    return "\n".join(lines)


def title(trace: Trace) -> str:
    """Return the subject of the trace, with the affected process and the reason if they are known."""
    root = trace.root
    attributes = root.attributes
    who, reason = attributes.get("broker_ids"), str(attributes.get("reason", "")).replace("_", " ")
    lost = attributes.get("lost_controller_id")
    name = root.name.replace("_", " ") if root.name in span_kinds.TRACE_KINDS else root.name
    match root.name:
        case span_kinds.CONTROLLER_FAILOVER:
            return name if lost is None else f"{name} after controller {lost}"
        case span_kinds.COORDINATOR_FAILOVER:
            return f"{name} after coordinator {attributes.get('previous_coordinator', '?')}"
        case span_kinds.GROUP_REBALANCE:
            # The reason may contain the name of a member, which is kept as it is.
            why = attributes.get("reason")
            return f"{name} of {attributes.get('group', '?')}" + (f" ({why})" if why else "")
        case span_kinds.TOPIC_CREATION | span_kinds.TOPIC_DELETION:
            return f"{name} of {attributes.get('topic', '?')}"
        case span_kinds.REASSIGNMENT:
            return f"{name} of {_moved(trace)}"
        case _ if trace.kind != root.name and trace.kind in span_kinds.TRACE_KINDS:
            # Its root died with its process.
            return f"{trace.kind.replace('_', ' ')} (unfinished)"
        case _:
            brokers = str(who or "").replace(",", ", ")
            whose = f" of broker{'s' if ',' in brokers else ''} {brokers}" if brokers else ""
            return name + whose + (f" ({reason})" if reason else "")


def _moved(trace: Trace) -> str:
    """The subject of a move: the partition if it is one, otherwise the number of partitions and their
    topics."""
    count = trace.root.attributes.get("partition_count", "?")
    steps = {
        str(span.attributes["partition"]): None for span in trace.spans if "partition" in span.attributes
    }
    if count == 1 and len(steps) == 1:
        return next(iter(steps))
    topics = list(dict.fromkeys(name.rpartition("-")[0] for name in steps))
    of = f" of {', '.join(topics[:_TOPICS_MAX])}" if topics else ""
    more = ", …" if len(topics) > _TOPICS_MAX else ""
    return f"{count} partition{'' if count == 1 else 's'}{of}{more}"


def started_at(trace: Trace) -> str:
    """Return when the trace began, in UTC."""
    return f"{datetime.fromtimestamp(trace.start_us / 1e6, UTC):%Y-%m-%d %H:%M:%S}Z"


def process_of(span: SpanRecord) -> str:
    """Return the process that wrote a span, as the local cluster calls it."""
    return f"{span.service.removeprefix('hightide-')}-{span.instance}"


def in_tree_order(nodes: tuple[SpanNode, ...], depth: int = 0) -> Iterator[tuple[SpanRecord, int]]:
    """Yield the spans, parents before children, each with its depth. A client's wait comes after its cause,
    even if it began before the cause was noticed."""
    for node in sorted(nodes, key=lambda node: node.span.service == span_kinds.CLIENT):
        yield node.span, depth
        yield from in_tree_order(node.children, depth + 1)


def _bar(span: SpanRecord, start_us: int, total_us: int) -> str:
    before = min((span.start_us - start_us) * BAR_WIDTH // total_us, BAR_WIDTH - 1)
    if span.start_us - start_us > total_us:
        return " " * before + _LATER
    length = min(span.duration_us * BAR_WIDTH // total_us, BAR_WIDTH - before)
    return (" " * before + (_BLOCK * length or _MOMENT)).ljust(BAR_WIDTH)


def _details(span: SpanRecord) -> str:
    shown = [f"{name}={value}" for name, value in span.attributes.items() if value != ""]
    more = len(shown) - _SHOWN_ATTRIBUTES_MAX
    failed = [] if span.ok else ["FAILED"]
    return " ".join(failed + shown[:_SHOWN_ATTRIBUTES_MAX]) + (f" +{more}" if more > 0 else "")
