"""A batch read that is narrowed by the filters of its query, which Spark pushes into sources from 4.1 on."""

from collections.abc import Iterable, Mapping

from pyspark.sql.datasource import (
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    LessThan,
    LessThanOrEqual,
)

from hightide_spark.core.filters import Comparison, Condition, narrowing
from hightide_spark.source.batch_reader import BatchReader

_COMPARISONS: Mapping[type[Filter], Comparison] = {
    EqualTo: "=",
    In: "in",
    LessThan: "<",
    LessThanOrEqual: "<=",
    GreaterThan: ">",
    GreaterThanOrEqual: ">=",
}


class PushdownBatchReader(BatchReader):
    """Reads only offsets that the filters can match. Option pushdown chooses this reader, because it is not
    safe for every program: Spark 4 also applies the last filters to later queries on the same DataFrame."""

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:  # noqa: N802 - Spark's name
        """Narrow the ranges, before Spark calls `partitions`. All filters are returned, so that Spark still
        checks every row."""
        self._narrowing = narrowing(
            Condition(each.attribute[0], _COMPARISONS[type(each)], each.value)
            for each in filters
            if isinstance(each, EqualTo | In | LessThan | LessThanOrEqual | GreaterThan | GreaterThanOrEqual)
            and len(each.attribute) == 1
        )
        return filters
