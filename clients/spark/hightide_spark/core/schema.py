"""The columns of a read: those of Spark's Kafka source.

Spark asks for them in a process of its own that ends then. So this module and what it needs load neither
Arrow nor gRPC, which would take longer than all else in that process. `core.arrow_columns` has the types of
Arrow.
"""

from typing import Final

# Name and SQL type of each column.
COLUMNS: Final = {
    "key": "BINARY",
    "value": "BINARY",
    "topic": "STRING",
    "partition": "INT",
    "offset": "BIGINT",
    "timestamp": "TIMESTAMP",
    "timestampType": "INT",
    "headers": "ARRAY<STRUCT<key: STRING, value: BINARY>>",
}


def default_ddl(include_headers: bool) -> str:
    """The schema if the user names none."""
    return ", ".join(
        f"{name} {sql_type}" for name, sql_type in COLUMNS.items() if include_headers or name != "headers"
    )
