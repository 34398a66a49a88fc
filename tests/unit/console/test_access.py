"""Who gets into a console: those with the printed address, from a page of its own, and nobody else."""

import pytest
from hightide_console.access import Access, hosts_of
from hightide_console.app import application
from starlette.testclient import TestClient
from unit.console.canned_cluster import ADDRESS, canned_console

ACCESS = Access(hosts_of("127.0.0.1", 9980), 9980)


@pytest.mark.parametrize("host", ["127.0.0.1:9980", "localhost:9980", "LOCALHOST:9980", "[::1]:9980"])
def test_its_own_names_are_accepted(host: str) -> None:
    assert ACCESS.is_own_host(host)


def test_a_browser_leaves_out_the_port_that_pages_have_by_default() -> None:
    """A console on port 80 refused each page of its own."""
    access = Access(hosts_of("127.0.0.1", 80), 80)
    assert access.is_own_host("127.0.0.1")
    assert access.is_own_origin("http://localhost", "same-origin")
    assert not access.is_own_host("evil.example")


@pytest.mark.parametrize(
    "host", [None, "", "evil.example", "evil.example:9980", "127.0.0.1", "127.0.0.1:9981"]
)
def test_a_name_that_was_bound_to_its_address_is_not_its_own(host: str | None) -> None:
    assert not ACCESS.is_own_host(host)


def test_the_cookie_is_not_the_printed_token() -> None:
    assert ACCESS.secret != ACCESS.cookie
    assert ACCESS.is_session(ACCESS.cookie)
    for other in (None, "", "é", ACCESS.secret):
        assert not ACCESS.is_session(other)


def test_each_run_has_secrets_of_its_own_and_shows_none() -> None:
    other = Access(ACCESS.hosts, ACCESS.port)
    assert not other.is_session(ACCESS.cookie)
    assert ACCESS.secret not in repr(ACCESS)


@pytest.mark.parametrize(
    ("origin", "fetch_site", "is_own"),
    [
        (None, None, True),
        ("http://127.0.0.1:9980", "same-origin", True),
        ("http://localhost:9980", None, True),
        ("http://evil.example", None, False),
        ("null", None, False),
        ("http://127.0.0.1:9981", "same-site", False),
        (None, "cross-site", False),
    ],
)
def test_a_change_is_asked_for_by_its_own_pages_only(
    origin: str | None, fetch_site: str | None, is_own: bool
) -> None:
    assert ACCESS.is_own_origin(origin, fetch_site) is is_own


@pytest.mark.parametrize(
    ("fetch_site", "mode", "destination", "may"),
    [
        (None, None, None, True),
        ("same-origin", "cors", "empty", True),
        ("none", "navigate", "document", True),
        ("cross-site", "navigate", "document", True),
        ("same-site", "navigate", "document", True),
        ("same-site", "no-cors", "image", False),
        ("same-site", "cors", "empty", False),
        ("cross-site", "navigate", "iframe", False),
    ],
)
def test_a_page_at_another_port_has_the_console_read_nothing(
    fetch_site: str | None, mode: str | None, destination: str | None, may: bool
) -> None:
    assert ACCESS.may_read(fetch_site, mode, destination) is may


def test_what_a_page_at_another_port_asks_for_is_refused_though_its_browser_sends_the_cookie() -> None:
    console = canned_console()
    image = {"sec-fetch-site": "same-site", "sec-fetch-mode": "no-cors", "sec-fetch-dest": "image"}
    link = {"sec-fetch-site": "same-site", "sec-fetch-mode": "navigate", "sec-fetch-dest": "document"}
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        client.get(f"/?token={console.access.secret}")
        assert client.get("/topics", headers=image).status_code == 403
        assert client.get("/topics", headers=link).status_code == 200


def test_the_printed_address_opens_a_session_and_leaves_the_token_out_of_the_address_line() -> None:
    console = canned_console()
    with TestClient(application(console), f"http://{ADDRESS}", follow_redirects=False) as client:
        assert client.get("/topics").status_code == 403
        opened = client.get(f"/topics?name=a&token={console.access.secret}")
        assert (opened.status_code, opened.headers["location"]) == (303, "/topics?name=a")
        cookie = opened.headers["set-cookie"].lower()
        assert "httponly" in cookie
        assert "samesite=strict" in cookie
        assert client.get("/topics").status_code == 200


def test_a_pass_opens_one_session_and_is_not_the_token() -> None:
    """A browser that is told what to open shows it to all users of the machine."""
    console = canned_console()
    once = console.access.new_pass()
    assert once != console.access.secret
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        assert client.get(f"/?token={once}").status_code == 200
        client.cookies.clear()
        assert client.get(f"/?token={once}").status_code == 403
        assert client.get(f"/?token={console.access.secret}").status_code == 200


def test_the_token_opens_no_way_to_another_site() -> None:
    console = canned_console()
    with TestClient(application(console), f"http://{ADDRESS}", follow_redirects=False) as client:
        opened = client.get(f"http://{ADDRESS}//evil.example/?token={console.access.secret}")
        assert opened.headers["location"] == "/evil.example/"


def test_a_wrong_token_or_a_rebound_name_gets_nothing() -> None:
    console = canned_console()
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        assert client.get("/?token=guess").status_code == 403
        assert client.get("/static/console.js").status_code == 403
        client.get(f"/?token={console.access.secret}")
        rebound = client.get("/", headers={"host": "evil.example:9980"})
        assert rebound.status_code == 403
        assert "evil.example" not in rebound.text


def test_every_answer_forbids_what_is_not_its_own() -> None:
    console = canned_console()
    with TestClient(application(console), f"http://{ADDRESS}") as client:
        refused = client.get("/")
        client.get(f"/?token={console.access.secret}")
        for answer in (refused, client.get("/"), client.get("/nowhere"), client.get("/static/console.js")):
            policy = answer.headers["content-security-policy"]
            assert "default-src 'none'" in policy
            assert "unsafe" not in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"
            assert answer.headers["x-frame-options"] == "DENY"
