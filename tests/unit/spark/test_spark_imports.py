"""What Spark's driver loads to answer a question: each question is a process of its own, which a user waits
for."""

import json
import subprocess
import sys

import pytest

_GIVEN = {"bootstrap.servers": "broker:9092", "subscribe": "t"}
_DATA_SOURCE = f"from pyspark_hightide import DefaultSource; source = DefaultSource({_GIVEN!r});"
_TYPES = "from pyspark.sql.types import StructType;"
_VALUE = "StructType().add('value', 'binary')"


@pytest.mark.parametrize(
    ("question", "not_loaded"),
    [
        ("source.schema()", {"grpc", "pyarrow", "numpy", "pandas"}),
        (f"{_TYPES} source.streamReader({_VALUE})", {"grpc", "pandas", "pyarrow.compute"}),
        (f"{_TYPES} source.reader({_VALUE})", {"grpc", "pandas", "pyarrow.compute"}),
        (f"{_TYPES} source.writer({_VALUE}, False)", {"grpc", "pandas"}),
        (f"{_TYPES} source.streamWriter({_VALUE}, False)", {"grpc", "pandas"}),
    ],
)
def test_the_driver_loads_no_client_to_make_what_it_pickles(question: str, not_loaded: set[str]) -> None:
    given = _DATA_SOURCE if "riter" not in question else _DATA_SOURCE.replace("'subscribe'", "'topic'")
    told = "import json, sys; print(json.dumps(sorted(sys.modules)))"
    run = subprocess.run(
        [sys.executable, "-c", f"{given} {question}; {told}"], capture_output=True, text=True, check=True
    )
    assert not not_loaded & set(json.loads(run.stdout))
