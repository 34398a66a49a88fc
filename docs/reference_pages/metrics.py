"""docs/reference/metrics.md: what each service measures."""

from collections.abc import Sequence

import hightide_broker.coordination.by_leaders
import hightide_broker.metrics
import hightide_controller.metrics
import hightide_coordinator.metrics
from hightide_runtime.process import process_metrics
from hightide_runtime.serving import rpc_metrics
from hightide_runtime.telemetry.metric_declarations import MetricDeclaration

from reference_pages.markdown import code, page, table

_UNITS = {"s": "seconds", "By": "bytes"}


def text() -> str:
    """The page."""
    return page(
        "Metrics",
        """Each service reports them by OTLP, as JSON lines, or to Prometheus at `--prometheus-listen`
        ([Operating](../operating.md#metrics-and-alerts)). The second column is what Prometheus exporters
        make of a name. A histogram has `_bucket`, `_sum` and `_count` behind it there. A counter begins at 0
        with its process. The active controller and coordinator report; those that stand by report zeros.""",
        "## Brokers\n\n" + _table(hightide_broker.metrics.METRICS),
        "## Brokers of a cluster without a controller, beside that\n\n"
        + _table(hightide_broker.coordination.by_leaders.LED_METRICS),
        "## Controllers\n\n" + _table(hightide_controller.metrics.METRICS),
        "## Coordinators\n\n" + _table(hightide_coordinator.metrics.METRICS),
        "## Calls, of each service\n\n" + _table(rpc_metrics.METRICS),
        "## Processes, of each service\n\n" + _table(process_metrics.METRICS),
    )


def _table(declarations: Sequence[MetricDeclaration]) -> str:
    rows = [
        (
            code(declaration.name),
            code(declaration.prometheus_name),
            declaration.kind.value,
            _UNITS.get(declaration.unit, declaration.unit.strip("{}")),
            ", ".join(map(code, declaration.attributes)),
            declaration.description,
        )
        for declaration in declarations
    ]
    return table(("metric", "in Prometheus", "kind", "unit", "attributes", "what it says"), rows)
