"""What Spark's Python processes have loaded is kept out of garbage collection."""

import subprocess
import sys

import pytest

_COUNTS = """
import gc, hightide_spark.loaded_modules as loaded_modules
gc.collect()
loaded_modules.freeze_modules()
first = gc.get_freeze_count()
{then}
loaded_modules.freeze_modules()
print(first, gc.get_freeze_count() - first)
"""


def counts(then: str) -> tuple[int, int]:
    """How many objects are frozen at first, and how many more after `then`, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, "-c", _COUNTS.format(then=then)], capture_output=True, text=True, check=True
    )
    first, more = ran.stdout.split()
    return int(first), int(more)


def test_all_that_is_loaded_is_frozen() -> None:
    first, more = counts("import hightide.records")
    assert first > 1_000
    assert more > 1_000


def test_what_a_query_makes_later_is_not_frozen() -> None:
    _, more = counts("kept = [[number] for number in range(10_000)]")
    assert more == 0


@pytest.mark.parametrize("client_of", ["admin_of", "range_reader_of"])
def test_the_modules_of_a_client_are_frozen_before_it_is_made(client_of: str) -> None:
    made = f"""
import gc, sys
from hightide_spark.core.cluster_options import Cluster
from hightide_spark.source.connections import {client_of}
client = {client_of}(Cluster("broker:9092"))
seen = [id(each) for each in gc.get_objects()]
print(id(sys.modules["grpc"]) in seen, id(client) in seen)
"""
    ran = subprocess.run([sys.executable, "-c", made], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", "True"]
