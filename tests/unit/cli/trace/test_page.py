"""A trace as a page and as a picture: small, self-contained, escaped, with all that the terminal shows."""

import json
import re
import sys
from dataclasses import asdict, replace
from pathlib import Path
from xml.etree import ElementTree as ET

import click
import pytest
from click.testing import CliRunner
from hightide_cli.main import cli
from hightide_cli.trace.page import page_of
from hightide_cli.trace.picture import ROWS_MAX, STEPS, picture_of
from hightide_cli.trace.png import write_png
from hightide_cli.trace.waterfall import waterfall
from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_lookup import Trace, traces_of
from hightide_runtime.telemetry import span_kinds as kinds


def span(
    name: str,
    parent: str,
    start_ms: float,
    end_ms: float,
    process: str = "controller-1",
    **attributes: str | int,
) -> SpanRecord:
    service, instance = process.split("-")
    return SpanRecord(
        "f" * 32,
        name + process,
        parent,
        name,
        service,
        instance,
        1_700_000_000_000_000 + int(start_ms * 1000),
        1_700_000_000_000_000 + int(end_ms * 1000),
        attributes=dict(attributes),
    )


ROOT = kinds.FAILOVER + "controller-1"
FAILOVER = [
    span(kinds.FAILOVER, "", 0, 240, broker_ids="2", reason="process_died"),
    span(kinds.BROKER_DOWN, ROOT, 0, 180),
    span(kinds.LEADERSHIP_CHANGE, ROOT, 180, 215),
    span(kinds.INFORM_BROKER, ROOT, 215, 240, broker_id=3),
    span(kinds.BECOME_LEADER, kinds.INFORM_BROKER + "controller-1", 220, 235, "broker-3", partition_count=1),
    span(kinds.FOLLOWERS_CONNECT, kinds.BECOME_LEADER + "broker-3", 235, 412, "broker-3"),
    span(kinds.FIRST_COMMIT, kinds.FOLLOWERS_CONNECT + "broker-3", 412, 412.2, "broker-3"),
    span("send flights", ROOT, 1, 415, "client-77", partition_count=4),
]
SENTENCE = "unavailable 412 ms: detect 180, elect 35, fan-out 20, first commit 177"


def trace_of(*spans: SpanRecord) -> Trace:
    (trace,) = traces_of(spans)
    return trace


def svg_of(page: str) -> ET.Element:
    found = re.search(r"<svg.*</svg>", page, re.DOTALL)
    assert found is not None
    return ET.fromstring(found.group())


def test_a_page_says_what_the_terminal_says() -> None:
    page = page_of(picture_of(trace_of(*FAILOVER)))
    assert "<h1>failover of broker 2 (process died)</h1>" in page
    assert f'<p class="s">{SENTENCE}</p>' in page
    texts = [text.text for text in svg_of(page).iter("text")]
    for label in (
        "broker down",
        "leadership change",
        "inform broker 3",
        "become leader (1 partition)",
        "send flights",
    ):
        assert label in texts
    assert [text for text in texts if text and text in "123456"] == ["1", "3", "4", "5"], "V3's steps"
    assert {"controller-1", "broker-3", "client-77"} <= set(re.findall(r"</i>(.*?)</li>", page))


def test_a_page_needs_nothing_else_and_no_script() -> None:
    page = page_of(picture_of(trace_of(*FAILOVER)))
    assert not re.search(r"<script|https?:|url\(|@import|<link|<img", page)
    assert "prefers-color-scheme:dark" in page


def test_a_page_of_fifty_spans_is_small() -> None:
    sample = "; ".join(f"flights-{at} leader 3 epoch 12" for at in range(10))
    many = [
        replace(
            span(
                kinds.INFORM_BROKER,
                ROOT,
                at,
                at + 7,
                broker_id=at,
                partition_count=10,
                partition_sample=sample,
            ),
            span_id=f"inform-{at}",
        )
        for at in range(42)
    ]
    root = replace(FAILOVER[0], attributes={**FAILOVER[0].attributes, "partition_sample": sample})
    page = page_of(picture_of(trace_of(root, *FAILOVER[1:], *many)))
    assert len(page.encode()) < 60_000


def test_what_stands_in_a_file_is_escaped() -> None:
    evil = "<script>alert('\"&')</script>"
    trace = trace_of(
        replace(FAILOVER[0], attributes={"reason": evil, evil: evil}),
        replace(FAILOVER[1], name=evil, instance=evil),
    )
    page = page_of(picture_of(trace))
    assert "<script" not in page
    ET.fromstring(
        re.sub(r"^<!doctype html>", "", re.sub(r"<meta[^>]*>", "", page)).replace("class=f", 'class="f"')
    )


def test_hovering_tells_all_that_is_known_of_a_span() -> None:
    titles = [title.text or "" for title in svg_of(page_of(picture_of(trace_of(*FAILOVER)))).iter("title")]
    (send,) = [text for text in titles if text.startswith("send flights")]
    assert send.splitlines() == ["send flights · client-77", "at 1.0 ms, took 414 ms", "partition_count: 4"]


def test_what_goes_on_long_after_it_is_cut() -> None:
    idle = span(kinds.FOLLOWERS_CONNECT, ROOT, 240, 90_000, "broker-1")
    picture = picture_of(trace_of(*FAILOVER, idle))
    assert picture.end_ms < 450
    (cut,) = [row for row in picture.rows if row.is_cut]
    assert cut.took.endswith("→")


def test_who_comes_to_it_much_later_does_not_stretch_it() -> None:
    late = span("poll flights", ROOT, 4_047, 4_055, "client-78")
    picture = picture_of(trace_of(*FAILOVER, late))
    assert picture.end_ms < 450
    assert picture.rows[-1].took == "at 4,047 ms →"
    assert page_of(picture).count("at 4,047 ms →") == 1
    terminal = waterfall(trace_of(*FAILOVER, late))
    assert "→" in terminal
    assert " 415.0 ms · " in terminal.splitlines()[0]


def test_a_picture_of_very_many_spans_says_how_many_it_leaves_out() -> None:
    many = [replace(FAILOVER[3], span_id=str(at)) for at in range(ROWS_MAX)]
    picture = picture_of(trace_of(FAILOVER[0], *many))
    assert (len(picture.rows), picture.left_out) == (ROWS_MAX, 1)
    assert "1 more spans are not drawn" in page_of(picture)


@pytest.mark.parametrize("took_ms", [0, 0.002, 1, 7, 412, 65_000, 86_400_000])
def test_the_axis_has_round_numbers_whatever_the_scale(took_ms: float) -> None:
    picture = picture_of(trace_of(span(kinds.FAILOVER, "", 0, took_ms)))
    assert 2 <= len(picture.ticks) <= 9
    assert picture.ticks[-1] <= picture.end_ms


def test_the_numbered_steps_are_the_six_of_v3() -> None:
    assert sorted(STEPS.values()) == [1, 2, 3, 4, 5, 6]


@pytest.mark.parametrize("option", ["--png", "--html"])
def test_a_file_that_cannot_be_written_is_a_sentence(tmp_path: Path, option: str) -> None:
    pytest.importorskip("matplotlib")
    lines = [asdict(each) for each in FAILOVER]
    (tmp_path / "controller-1.jsonl").write_text("".join(json.dumps(each) + "\n" for each in lines))
    missing = tmp_path / "nowhere" / "trace.png"
    arguments = ["trace", "show", "--directory", str(tmp_path), option, str(missing)]
    done = CliRunner().invoke(cli, arguments)
    assert done.exit_code == 1
    assert f"{missing} could not be written: No such file or directory" in done.output


@pytest.mark.parametrize("name", ["trace.png", "trace.txt", "trace.pdf", "trace"])
def test_a_png_is_drawn_whatever_the_file_is_called(tmp_path: Path, name: str) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / name
    odd = span("$\\frac{1}{", ROOT, 3, 4)
    write_png(picture_of(trace_of(*FAILOVER, odd)), path)
    content = path.read_bytes()
    assert content.startswith(b"\x89PNG")
    assert int.from_bytes(content[16:20], "big") > 1_500


def test_without_matplotlib_there_is_a_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(click.ClickException, match=r"hightide\[pipelines\], or write a page by --html"):
        write_png(picture_of(trace_of(*FAILOVER)), tmp_path / "trace.png")
