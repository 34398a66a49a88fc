"""A table of metrics with the function that reads them. Its failure does not affect other tables."""

import logging
from collections.abc import Sequence

from hightide_runtime.telemetry.metric_declarations import Measure, MetricDeclaration, Readings

__all__ = ["MetricSource"]

_log = logging.getLogger(__name__)


class MetricSource:
    """A table of metrics with its function. `Metrics.report` makes it."""

    def __init__(self, declarations: Sequence[MetricDeclaration], measure: Measure) -> None:
        self.declarations = tuple(declarations)
        self._names = frozenset(declaration.name for declaration in declarations)
        assert len(self._names) == len(self.declarations), "a metric is declared twice"
        self._measure = measure
        self._has_failed = False

    def read(self) -> Readings:
        """The present readings. If they cannot be read, this is logged once, and there are none."""
        try:
            readings = self._measure()
            if readings.keys() != self._names:
                raise KeyError(f"declared or measured, not both: {sorted(readings.keys() ^ self._names)}")
        except Exception:  # noqa: BLE001 - on the exporter's thread, which must go on
            if not self._has_failed:
                self._has_failed = True
                _log.exception("metrics such as %s cannot be read", self.declarations[0].name)
            return {}
        return readings
