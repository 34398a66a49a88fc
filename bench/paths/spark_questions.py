"""The CPU seconds in which Spark's driver has the answer to each of its questions to the data source, beyond
what Spark itself imports. Each question is a process of its own, which the user of a query waits for.

python bench/paths/spark_questions.py [--rounds N]
"""

import argparse
import subprocess
import sys
from statistics import median

_BEFORE = """
import time, pyspark.sql.worker.create_data_source
from pyspark.sql.types import StructType
value = StructType().add("value", "binary")
began_s = time.process_time()
from pyspark_hightide import DefaultSource
source = DefaultSource({"bootstrap.servers": "127.0.0.1:1", "%s": "t"})
%s
print(time.process_time() - began_s)
"""
#: The option that names the topic, and the question.
_QUESTIONS = {
    "the schema of a read": ("subscribe", "source.schema()"),
    "the reader of a batch": ("subscribe", "source.reader(value)"),
    "the reader of a stream": ("subscribe", "source.streamReader(value)"),
    "the writer of a batch": ("topic", "source.writer(value, False)"),
    "the writer of a stream": ("topic", "source.streamWriter(value, False)"),
}


def seconds(option: str, question: str) -> float:
    """Ask it in a new process."""
    program = [sys.executable, "-c", _BEFORE % (option, question)]
    return float(subprocess.run(program, check=True, capture_output=True, text=True).stdout)


def main() -> None:
    """Ask each question in turns, and print the median of each, with the lowest and the highest."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    rounds: list[dict[str, float]] = [
        {name: seconds(*each) for name, each in _QUESTIONS.items()} for _ in range(parser.parse_args().rounds)
    ]
    for name in _QUESTIONS:
        times = [each[name] for each in rounds]
        print(f"{name}: {median(times):.2f} s [{min(times):.2f}-{max(times):.2f}]")


if __name__ == "__main__":
    main()
