"""The columns of a read: those of Spark's Kafka source, or those of them that the user's schema names."""

from typing import Any, Final

import pyarrow as pa

from hightide_spark.errors import UnsupportedSchemaError

HEADERS_ARROW_TYPE: Final = pa.list_(
    pa.field("element", pa.struct([pa.field("key", pa.string()), pa.field("value", pa.binary())]))
)

# Name, SQL type and Arrow type of each column. The Arrow types are exactly those that Spark takes.
_COLUMNS: Final[tuple[tuple[str, str, Any], ...]] = (
    ("key", "BINARY", pa.binary()),
    ("value", "BINARY", pa.binary()),
    ("topic", "STRING", pa.string()),
    ("partition", "INT", pa.int32()),
    ("offset", "BIGINT", pa.int64()),
    ("timestamp", "TIMESTAMP", pa.timestamp("us", tz="UTC")),
    ("timestampType", "INT", pa.int32()),
    ("headers", "ARRAY<STRUCT<key: STRING, value: BINARY>>", HEADERS_ARROW_TYPE),
)
_MAY_BE_NULL: Final = frozenset({"key", "value", "headers"})


def default_ddl(include_headers: bool) -> str:
    """The schema if the user names none."""
    return ", ".join(
        f"{name} {sql_type}" for name, sql_type, _ in _COLUMNS if include_headers or name != "headers"
    )


def columns_of(schema: Any) -> tuple[str, ...]:
    """The columns that a `pyarrow.Schema` names, in its order, by their names in this package. Raises
    UnsupportedSchemaError for a column that is unknown, named twice, or of another type, and if there is no
    column: rows without columns cannot be counted."""
    known = {name.lower(): (name, sql_type, arrow_type) for name, sql_type, arrow_type in _COLUMNS}
    found: list[str] = []
    for field in schema:
        if field.name.lower() not in known:
            raise UnsupportedSchemaError(
                f"the schema names column {field.name!r}; there are "
                + ", ".join(name for name, _, _ in _COLUMNS)
            )
        name, sql_type, arrow_type = known[field.name.lower()]
        if name in found:
            raise UnsupportedSchemaError(f"the schema names column {name!r} twice")
        if not field.type.equals(arrow_type):
            raise UnsupportedSchemaError(
                f"the schema says that column {name!r} is {field.type}; it is {sql_type}; cast() it later"
            )
        if not field.nullable and name in _MAY_BE_NULL:
            raise UnsupportedSchemaError(f"the schema says that column {name!r} is never null, but it may be")
        found.append(name)
    if not found:
        raise UnsupportedSchemaError("the schema names no column; name one, such as offset")
    return tuple(found)
