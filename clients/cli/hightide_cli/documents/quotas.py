"""The shape of the documents about quotas."""

from typing import Annotated, TypedDict


class QuotaDocument(TypedDict):
    """A principal and its own limits."""

    principal: Annotated[str, "client/<name>; client/* for each client; anonymous for all who are"]
    produce_bytes_per_s: Annotated[
        int | None, "bytes it may produce at each broker; null: no limit of its own"
    ]
    fetch_bytes_per_s: Annotated[int | None, "bytes it may fetch from each broker; null: no limit of its own"]
    mutations_per_s: Annotated[int | None, "partitions it may create or delete; null: no limit of its own"]
    calls_max: Annotated[int | None, "its unfinished calls at each process; null: no limit of its own"]
    connections_max: Annotated[int | None, "its connections with such calls; null: no limit of its own"]
