"""The page of failovers: what happened with the sentence, what moves, what the controller complains of."""

import json
from dataclasses import replace
from pathlib import Path

from hightide import Complaint, Reassignment, ReplicaListing, TopicPartition
from hightide_cli.reassign.progress import Watched
from hightide_cli.trace.search import all_traces
from hightide_console.app import application
from hightide_console.views.failovers import moves_view, trace_named, trace_rows
from starlette.testclient import TestClient
from unit.console.canned_cluster import ADDRESS, CLUSTER, CannedDoor, canned_console, replica

START_US = 1_750_000_000_000_000
STEPS = [
    ("failover", "", 0, 300_000),
    ("failover.broker_down", "root", 0, 80_000),
    ("failover.leadership_change", "root", 80_000, 130_000),
    ("failover.become_leader", "root", 130_000, 170_000),
    ("failover.first_commit", "root", 170_000, 300_000),
]


def write_trace(directory: Path) -> None:
    lines = []
    for number, (name, parent, begin, end) in enumerate(STEPS):
        span = {
            "trace_id": "ab" * 16,
            "span_id": "root" if not parent else f"s{number}",
            "parent_id": parent,
            "name": name,
            "service": "hightide-controller",
            "instance": "1",
            "start_us": START_US + begin,
            "end_us": START_US + end,
            "attributes": {"broker_ids": "2", "reason": "<b>process_died"} if not parent else {},
        }
        lines.append(json.dumps(span))
    (directory / "controller-1.jsonl").write_text("\n".join(lines))


def test_a_failover_is_listed_with_the_sentence_of_trace_show(tmp_path: Path) -> None:
    write_trace(tmp_path)
    traces = all_traces([tmp_path])
    (row,) = trace_rows(traces)
    assert row.what.startswith("failover of broker 2")
    assert row.sentence.startswith("unavailable")
    assert trace_named(traces, row.trace_id) is traces[0]
    assert trace_named(traces, "no") is None


def test_the_waterfall_is_drawn_without_styles_and_its_texts_are_escaped(tmp_path: Path) -> None:
    write_trace(tmp_path)
    console = canned_console()
    console.trace_directories = (tmp_path,)
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        assert f'href="/failovers/{"ab" * 16}"' in client.get("/failovers").text
        page = client.get(f"/failovers/{'ab' * 16}").text
        assert "<svg" in page
        assert " style=" not in page
        assert "<b>process" not in page
        assert client.get("/failovers/none").status_code == 404


def test_without_traces_the_page_says_how_to_have_them_and_shows_complaints() -> None:
    console = canned_console()
    door = console.door
    assert isinstance(door, CannedDoor)
    complaint = Complaint("/config/topics/x", "it is no JSON: repair it with <zkCli>")
    door.canned.cluster = replace(CLUSTER, complaints=(complaint,))
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        page = client.get("/failovers").text
        assert "--traces DIRECTORY" in page
        assert "repair it with &lt;zkCli&gt;" in page


def test_moves_show_how_far_they_are_and_what_slows_them() -> None:
    move = Reassignment(TopicPartition("orders", 0), b"o" * 16, (1, 2), (1, 3), (1, 2, 3), (1, 2), 1)
    listing = ReplicaListing((replica("orders", 0, 1, 100, leads=True), replica("orders", 0, 3, 25)))
    watched = Watched()
    watched.look(0.0, (move,), ())
    view = moves_view(watched.look(5.0, (move,), listing.replicas), 10_000_000)
    assert (view.rows[0].original, view.rows[0].target, view.rows[0].done) == ("1, 2", "1, 3", 25)
    assert "1 under way · 2.5 kB of 10 kB copied · 500 B/s · 15 s left" in view.summary
    assert view.summary.endswith("throttle: 10 MB/s from each broker")
    assert moves_view(Watched().look(0.0, (), ()), 0).summary == "nothing is on the move · throttle: none"
