"""The bounds of the console. Each of them keeps a large cluster, a large record or many windows from costing
more than a person can read."""

from dataclasses import dataclass
from typing import Final

#: Events go to at most this many windows at once; a further one is told to come again.
STREAMS_MAX: Final = 32
#: Live tails read from brokers, so there are fewer of them.
TAILS_MAX: Final = 8
#: Rows of a table on one page; the rest is counted.
ROWS_MAX: Final = 200
#: Records on one page.
RECORDS_MAX: Final = 500
#: What one search reads at most, before it says how to go on.
SEARCH_RECORDS_MAX: Final = 100_000
SEARCH_BYTES_MAX: Final = 64 << 20
SEARCH_SECONDS_MAX: Final = 10.0
#: Searches that run at once; others wait. Each may hold what one search reads at most.
READS_AT_ONCE_MAX: Final = 3
#: Of a key, a value or a header this much is shown; the whole value can be downloaded.
SHOWN_BYTES_MAX: Final = 4_096
#: A topic with more partitions is read one partition at a time.
PARTITIONS_AT_ONCE_MAX: Final = 32
#: Points of a chart: five minutes, a point a second.
HISTORY_POINTS: Final = 300


@dataclass(frozen=True, slots=True)
class ConsoleSettings:
    """How one console was started. `cluster` is the address as people write it, `origin` says who named it.
    `acts_as` is whom the cluster takes the console for, where its own credentials say so."""

    host: str
    port: int
    cluster: str
    origin: str
    allows_changes: bool = False
    acts_as: str = ""
