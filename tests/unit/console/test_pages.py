"""The handlers render what the views say, escape everything, and say what is wrong."""

from collections.abc import Iterator
from html import unescape
from urllib.parse import quote

import pytest
from hightide.errors import BrokersUnavailableError
from hightide_console.app import application
from hightide_console.console import Console
from hightide_console.views.record_query import Start
from starlette.testclient import TestClient
from unit.console.canned_cluster import ADDRESS, RECORD, CannedDoor, CannedReading, canned_console, record

SCRIPT = b"<script>alert(1)</script>"


@pytest.fixture
def console() -> Console:
    return canned_console(RECORD)


@pytest.fixture
def client(console: Console) -> Iterator[TestClient]:
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        yield client


def test_the_overview_has_figures_brokers_and_roles(client: TestClient) -> None:
    page = client.get("/").text
    assert "Healthy" in page
    for text in ("127.0.0.1:9092", "active, epoch 7", "standing by", "read-only"):
        assert text in page


def test_the_grid_is_served_whole(client: TestClient) -> None:
    document = client.get("/grid.json").json()
    assert document["topics"] == ["orders", "audit"]
    assert document["rows"]["orders"][1] == {"0": 20}


def test_topics_are_found_by_a_part_of_their_name(client: TestClient) -> None:
    assert 'href="/topics/orders"' in client.get("/topics?name=rder").text
    assert "No topic has" in client.get("/topics?name=<b>").text


def test_a_topic_has_partitions_and_settings(client: TestClient) -> None:
    page = client.get("/topics/orders").text
    assert "broker 3, in sync, 20 records behind" in page
    assert "min.insync.replicas" in page


def test_an_unknown_topic_is_said_with_the_sentence_of_the_error(client: TestClient) -> None:
    answer = client.get("/topics/nope")
    assert answer.status_code == 502
    assert "there is no topic nope" in answer.text


def test_records_are_read_as_the_form_asks(console: Console, client: TestClient) -> None:
    page = client.get("/topics/orders/records?partition=0&start=earliest&limit=5").text
    assert unescape(page).count('{"total": 12}') == 1
    reading = console.reading
    assert isinstance(reading, CannedReading)
    assert [(each.partition, each.start, each.limit) for each in reading.queries] == [(0, Start.EARLIEST, 5)]


def test_what_is_not_understood_is_said_and_nothing_is_read(console: Console, client: TestClient) -> None:
    page = client.get("/topics/orders/records?start=offset&at=soon").text
    assert "soon” is no offset" in page
    reading = console.reading
    assert isinstance(reading, CannedReading)
    assert reading.queries == []


@pytest.mark.parametrize(
    "path", ["/topics/orders/records", "/topics/orders/records?form=hex&match=key&text=%3Cb%3E"]
)
def test_a_record_full_of_markup_is_text(path: str) -> None:
    image = b'"><img src=x onerror=alert(1)>'
    hostile = record(key=SCRIPT, value=image, headers=((SCRIPT.decode(), SCRIPT),))
    console = canned_console(hostile)
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        page = client.get(path).text
    assert "<script>alert" not in page
    assert "<img" not in page
    assert "<b>" not in page.replace("<b>0<span", "").replace("<b>Healthy", "")


def test_a_value_is_downloaded_byte_for_byte_and_never_opened_as_a_page() -> None:
    console = canned_console(record(value=SCRIPT + b"\xff\x00"))
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        answer = client.get("/topics/orders/records/0/41/value")
        assert answer.content == SCRIPT + b"\xff\x00"
        assert answer.headers["content-type"] == "application/octet-stream"
        assert answer.headers["content-disposition"].startswith("attachment;")
        assert client.get("/topics/orders/records/0/42/value").status_code == 404


@pytest.mark.parametrize(
    "path",
    [
        "0/41/" + quote('x";\r\nset-cookie: a=b;', safe=""),
        "0/41/headers",
        "0/" + "9" * 5_000 + "/value",
        "9" * 5_000 + "/0/key",
        "-1/41/value",
    ],
)
def test_a_download_is_of_a_key_or_a_value_at_numbers(client: TestClient, path: str) -> None:
    answer = client.get(f"/topics/orders/records/{path}")
    assert answer.status_code == 404
    assert "content-disposition" not in answer.headers
    assert "set-cookie" not in answer.headers


def test_a_cluster_that_is_down_is_a_page_that_says_so(console: Console, client: TestClient) -> None:
    door = console.door
    assert isinstance(door, CannedDoor)
    door.canned.cluster = BrokersUnavailableError("no broker answers at 127.0.0.1:9091")
    answer = client.get("/topics/orders")
    assert answer.status_code == 502
    assert "no broker answers at 127.0.0.1:9091" in answer.text


def test_no_page_has_a_script_or_a_style_of_its_own(client: TestClient) -> None:
    for path in ("/", "/topics", "/topics/orders", "/topics/orders/records", "/nowhere"):
        page = client.get(path).text
        assert "<style" not in page
        assert " style=" not in page
        assert page.count("<script") == page.count('<script src="/static/')
        assert " on" + "click" not in page
