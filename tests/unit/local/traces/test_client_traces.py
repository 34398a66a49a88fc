"""Programs of Hightide's own write the spans of their clients beside those of the services."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hightide_local.traces.span_files import read_spans

WAIT = "LeaderWait('flights', 1, (0,), 7, '00-' + 'a' * 32 + '-' + 'b' * 16 + '-01', 0.0, 5.0)"


def run(code: str, **environment: str) -> str:
    """A program of its own: what it sets up is the process's."""
    bare = {name: value for name, value in os.environ.items() if not name.startswith(("OTEL_", "HIGHTIDE_"))}
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=bare | environment
    )
    assert done.stderr == ""
    return done.stdout.strip()


def reporting(set_up: str) -> str:
    return (
        "import os, sys\n"
        "from pathlib import Path\n"
        "from hightide import tracing\n"
        "from hightide.cluster.leader_waits import LeaderWait\n"
        "from hightide_local.traces.client_traces import export_trace_directory, trace_clients\n"
        f"print({set_up})\n"
        "assert 'opentelemetry.sdk' not in sys.modules\n"
        f"tracing.Reporter('send', 'c').report([{WAIT}], 5.0)\n"
    )


@pytest.mark.parametrize("is_said", [True, False])
def test_a_wait_is_written_into_the_directory(tmp_path: Path, is_said: bool) -> None:
    environment = {"HIGHTIDE_TRACE_DIR": str(tmp_path)} if is_said else {}
    set_up = "trace_clients()" if is_said else f"trace_clients(Path({str(tmp_path)!r}))"
    assert run(reporting(set_up), **environment) == "True"
    (path,) = tmp_path.glob("client-*.jsonl")
    (span,) = read_spans(tmp_path)
    assert (span.name, span.service, span.trace_id) == ("send flights", "client", "a" * 32)
    assert path.stem == f"client-{span.instance}"


def test_clients_on_many_threads_share_what_writes_their_spans(tmp_path: Path) -> None:
    code = (
        "import threading; from concurrent.futures import ThreadPoolExecutor\n"
        "from hightide import tracing; from hightide_local.traces.client_traces import trace_clients\n"
        "given = []; tracing.use = given.append\n"
        "trace_clients(); (provider,) = given; start = threading.Barrier(8)\n"
        "def first(_): start.wait(); return id(provider())\n"
        "with ThreadPoolExecutor(8) as pool: print(len(set(pool.map(first, range(8)))))"
    )
    assert run(code, HIGHTIDE_TRACE_DIR=str(tmp_path)) == "1"


def test_what_the_environment_says_comes_first(tmp_path: Path) -> None:
    said, offered = tmp_path / "said", tmp_path / "offered"
    assert run(reporting(f"trace_clients(Path({str(offered)!r}))"), HIGHTIDE_TRACE_DIR=str(said)) == "True"
    assert len(read_spans(said)) == 1
    assert not offered.exists()


def test_where_nobody_asks_there_are_no_spans() -> None:
    assert run(reporting("trace_clients()")) == "False"


def test_where_opentelemetry_is_off_there_are_no_spans(tmp_path: Path) -> None:
    set_up = f"trace_clients(Path({str(tmp_path)!r}))"
    assert run(reporting(set_up), OTEL_SDK_DISABLED="true") == "False"
    assert read_spans(tmp_path) == []


def test_processes_that_are_started_are_told_where(tmp_path: Path) -> None:
    code = (
        "import os; from pathlib import Path\n"
        "import hightide_local.traces.client_traces as traces\n"
        f"traces.export_trace_directory(Path({str(tmp_path)!r})); print(os.environ.get('HIGHTIDE_TRACE_DIR'))"
    )
    assert run(code) == str(tmp_path)
    assert run(code, OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:1") == "None"
    assert run(code, HIGHTIDE_TRACE_DIR="/elsewhere") == "/elsewhere"


def test_a_command_whose_environment_traces_is_a_span(tmp_path: Path) -> None:
    code = "from hightide_cli.main import main; main(['-o', 'json', 'version', '--help'])"
    run(code, HIGHTIDE_TRACE_DIR=str(tmp_path))
    (span,) = read_spans(tmp_path)
    assert (span.name, span.parent_id) == ("hightide version", "")


@pytest.mark.parametrize(
    ("variable", "value", "sentence"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "http/protobuf", "nothing is traced: OTEL_EXPORTER_OTLP_PROTOCOL is"),
        ("HIGHTIDE_TRACE_DIR", "/dev/null/traces", "nothing is traced: "),
    ],
)
def test_a_command_does_its_work_whatever_the_environment_asks_for(
    variable: str, value: str, sentence: str
) -> None:
    bare = {name: each for name, each in os.environ.items() if not name.startswith(("OTEL_", "HIGHTIDE_"))}
    asked = {variable: value}
    if variable.startswith("OTEL"):
        asked["OTEL_EXPORTER_OTLP_ENDPOINT"] = "http://127.0.0.1:1"
    code = "from hightide_cli.main import main; main(['trace', '--help'])"
    done = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, env=bare | asked
    )
    assert done.stdout.startswith("Usage: hightide trace")
    assert done.stderr.startswith(sentence)
    assert len(done.stderr.splitlines()) == 1


def test_a_command_whose_environment_does_not_imports_nothing_for_it() -> None:
    code = (
        "import json, sys; from hightide_cli.main import main; main(['version', '--help'])\n"
        "print(json.dumps([name for name in sys.modules if name.startswith('opentelemetry')]))"
    )
    assert json.loads(run(code).splitlines()[-1]) == []
