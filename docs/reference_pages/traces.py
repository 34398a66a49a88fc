"""docs/reference/traces.md: which spans there are."""

from hightide_runtime.telemetry.span_kinds import ATTRIBUTES, SPANS

from reference_pages.markdown import code, page, table


def text() -> str:
    """The page."""
    return page(
        "Traces",
        """The spans of a cluster: `hightide trace show` draws them, and OTLP takes them to any collector
        ([Operating](../operating.md#traces)). A root begins a trace. *Step* is the step of that number in
        V3's "End-to-end latency during a broker failure".""",
        "## Spans",
        table(
            ("span", "written by", "what it is"),
            [(code(span.name), span.service, span.description) for span in SPANS],
        ),
        "## Attributes",
        table(
            ("attribute", "type", "what it says"),
            [(code(each.name), each.type, each.description) for each in ATTRIBUTES],
        ),
    )
