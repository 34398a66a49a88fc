"""A console that may change things does so as whoever started it: what the rules of the cluster allow them,
and no more."""

from collections.abc import Iterator
from html import unescape

import httpx2
import pytest
from hightide import Acl, Admin
from hightide_cli.command_line.client_arguments import ClientArguments
from hightide_local.cluster import LocalCluster
from integration.console.console_process import console, wait_for_part

pytestmark = pytest.mark.cluster

WITH_ACLS = ("--authorization", "acls", "--super-users", "client/local,client/root")
RULES = (
    Acl("client/alice", "allow", "write", "topic", "orders", "literal"),
    Acl("client/alice", "allow", "read", "topic", "orders", "literal"),
    Acl("client/alice", "allow", "describe", "cluster", "cluster", "literal"),
    Acl("client/bob", "allow", "read", "topic", "orders", "literal"),
)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("console"),
        brokers=1,
        controllers=1,
        coordinators=1,
        tls=True,
        broker_arguments=WITH_ACLS,
        controller_arguments=WITH_ACLS,
        coordinator_arguments=WITH_ACLS,
    ) as started:
        with admin(started) as root:
            root.create_topic("orders")
            root.create_topic("payroll")
            root.alter_acls(RULES)
        yield started


def files(cluster: LocalCluster, name: str) -> ClientArguments:
    assert cluster.certificates is not None
    own = cluster.certificates.issue(f"client/{name}")
    return ClientArguments(tls_ca=str(own.ca), tls_certificate=str(own.certificate), tls_key=str(own.key))


def admin(cluster: LocalCluster) -> Admin:
    own = files(cluster, "root")
    own["bootstrap"] = cluster.bootstrap
    return Admin(**own)


def flags(cluster: LocalCluster, name: str) -> list[str]:
    return [
        "--allow-changes",
        *(f"--{key.replace('_', '-')}={value}" for key, value in files(cluster, name).items()),
    ]


def preview(client: httpx2.Client, change: str, **said: str) -> httpx2.Response:
    return client.post(f"/changes/{change}/preview", data=said)


def carry_out(client: httpx2.Client, shown: httpx2.Response) -> httpx2.Response:
    ticket = shown.text.partition('name="ticket" value="')[2].partition('"')[0]
    assert ticket, unescape(shown.text)
    return client.post("/changes", data={"ticket": ticket})


def test_what_was_shown_is_what_happens(cluster: LocalCluster) -> None:
    with admin(cluster) as root, console(cluster.bootstrap, *flags(cluster, "root")) as client:
        shown = preview(
            client, "create-topic", name="made", partitions="2", replicas="1", settings="flush=fsync"
        )
        assert "would be created" in shown.text
        assert "made" not in [each.name for each in root.describe_topics()]
        assert "created" in carry_out(client, shown).text
        (made,) = root.describe_topics(["made"])
        assert (len(made.partitions), made.configs["flush"]) == (2, "fsync")

        shown = preview(client, "set", topic="made", settings="retention.ms=86400000", reset="flush")
        assert "retention.ms would be 86400000" in unescape(shown.text)
        assert carry_out(client, shown).status_code == 200
        (made,) = root.describe_topics(["made"])
        assert made.configs == {"retention.ms": "86400000"}

        shown = preview(
            client, "produce", topic="made", value="it's <b>\n$HOME", key="k", headers="a=b", partition="1"
        )
        assert carry_out(client, shown).status_code == 200
        page = client.get("/topics/made/records?partition=1&form=text").text
        assert "it's <b>\n$HOME" in unescape(page)
        again = client.post("/changes", data={"ticket": "guess"})
        assert again.status_code == 409

        shown = preview(client, "delete-topic", topic="made")
        assert "1 record" in shown.text
        assert carry_out(client, shown).status_code == 200
        assert "made" not in [each.name for each in root.describe_topics()]


def test_it_acts_as_whoever_started_it(cluster: LocalCluster) -> None:
    with console(cluster.bootstrap, *flags(cluster, "alice")) as client:
        assert "as client/alice" in client.get("/").text
        assert (
            carry_out(client, preview(client, "produce", topic="orders", value="of alice")).status_code == 200
        )
        refused = preview(client, "set", topic="orders", settings="retention.ms=1000")
        assert refused.status_code == 409
        assert "client/alice" in refused.text
        assert 'name="ticket"' not in refused.text
        # Its dry run only asks who is active: it is the deed that the cluster refuses.
        resigned = carry_out(client, preview(client, "resign-controller"))
        assert (resigned.status_code, "client/alice" in resigned.text) == (409, True)
    log = cluster.log_tail("controller-1", 400)
    assert '"who": "client/alice"' in log


def test_who_may_see_a_part_sees_that_part(cluster: LocalCluster) -> None:
    with console(cluster.bootstrap, *flags(cluster, "bob")) as client:
        assert "as client/bob" in client.get("/topics").text
        assert "client/bob may not" in wait_for_part(client, "/events/topics", "status", "In part")
        assert "payroll" not in wait_for_part(client, "/events/topics", "topic_list", "/topics/orders")
        assert client.get("/topics/orders/records").status_code == 200
        assert "payroll" not in client.get("/grid.json").text
        assert client.get("/topics/payroll/records").status_code == 502
