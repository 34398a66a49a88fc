"""The columns of a read as Arrow has them, and which of them the user's schema names."""

from typing import Any, Final

import pyarrow as pa

from hightide_spark.core.schema import COLUMNS
from hightide_spark.errors import UnsupportedSchemaError

HEADERS_ARROW_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

# Exactly the types that Spark takes.
_ARROW_TYPES: Final[dict[str, Any]] = {
    "key": pa.binary(),
    "value": pa.binary(),
    "topic": pa.string(),
    "partition": pa.int32(),
    "offset": pa.int64(),
    "timestamp": pa.timestamp("us", tz="UTC"),
    "timestampType": pa.int32(),
    "headers": HEADERS_ARROW_TYPE,
}
assert _ARROW_TYPES.keys() == COLUMNS.keys(), "each column has both types"
_MAY_BE_NULL: Final = frozenset({"key", "value", "headers"})


def columns_of(schema: Any) -> tuple[str, ...]:
    """The columns that a `pyarrow.Schema` names, in its order, by their names in this package. Raises
    UnsupportedSchemaError for a column that is unknown, named twice, or of another type, and if there is no
    column: rows without columns cannot be counted."""
    known = {name.lower(): name for name in COLUMNS}
    found: list[str] = []
    for field in schema:
        if field.name.lower() not in known:
            raise UnsupportedSchemaError(
                f"the schema names column {field.name!r}; there are " + ", ".join(COLUMNS)
            )
        name = known[field.name.lower()]
        if name in found:
            raise UnsupportedSchemaError(f"the schema names column {name!r} twice")
        if not field.type.equals(_ARROW_TYPES[name]):
            raise UnsupportedSchemaError(
                f"the schema says that column {name!r} is {field.type}; it is {COLUMNS[name]}; cast() it "
                "later"
            )
        if not field.nullable and name in _MAY_BE_NULL:
            raise UnsupportedSchemaError(f"the schema says that column {name!r} is never null, but it may be")
        found.append(name)
    if not found:
        raise UnsupportedSchemaError("the schema names no column; name one, such as offset")
    return tuple(found)
