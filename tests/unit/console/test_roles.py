"""Who decides in the cluster, and whether ZooKeeper keeps it: as the processes tell it of themselves."""

from dataclasses import replace

import pytest
from hightide import ClusterDescription
from hightide.errors import ControllerUnavailableError
from hightide_console.changes.catalogue import changes_of
from hightide_console.looks import Pulse, Reach, ServerLook
from hightide_console.views.overview import status_of
from hightide_console.views.roles import RoleRow, role_rows, zookeeper_problem
from hightide_console.watch import pulse_after
from unit.console.canned_cluster import CLUSTER, survey

UP = Pulse(Reach.UP, 5_000, 1_000, "", CLUSTER)
LED = replace(CLUSTER, controller_id=2, controller_epoch=0, controllers=(), coordination="leaders")


def server(kind: str, server_id: int, session_timeout_ms: int | None = 6_000) -> ServerLook:
    port = {"broker": 9090, "controller": 9190, "coordinator": 9290}[kind] + server_id
    return ServerLook(kind, f"{kind} {server_id}", f"127.0.0.1:{port}", session_timeout_ms, "127.0.0.1:2181")


BROKERS = tuple(server("broker", each) for each in (1, 2, 3))
CONTROLLER, STANDBY = server("controller", 1), server("controller", 2)


def roles(*servers: ServerLook, cluster: ClusterDescription = CLUSTER) -> list[tuple[str, str, str, str]]:
    rows = role_rows(cluster, survey(), servers)
    return [(each.kind, each.name, each.state, each.tone) for each in rows]


def zookeeper(*servers: ServerLook) -> RoleRow:
    return role_rows(CLUSTER, survey(), servers)[-1]


def test_zookeeper_is_well_when_every_process_that_answers_has_a_session() -> None:
    row = zookeeper(*BROKERS, CONTROLLER, server("controller", 2, None))
    assert row == RoleRow("ZooKeeper", "", "127.0.0.1:2181", "answers, 4 sessions of 6 s", "ok")
    assert zookeeper_problem(BROKERS) is None


def test_a_process_without_a_session_is_named() -> None:
    servers = (*BROKERS[:2], server("broker", 3, 0))
    assert (zookeeper(*servers).state, zookeeper(*servers).tone) == ("no session of broker 3", "warning")
    status = status_of(UP, survey(), 6_000, servers)
    assert (status.word, status.tone) == ("Not healthy", "warning")
    assert status.sentence.startswith("broker 3 has no session with ZooKeeper")


def test_a_zookeeper_that_is_away_is_said_first() -> None:
    servers = [replace(each, session_timeout_ms=0) for each in (*BROKERS, CONTROLLER)]
    assert zookeeper(*servers).tone == "bad"
    assert status_of(UP, survey(), 6_000, servers).sentence.startswith("ZooKeeper does not answer")
    no_controller = pulse_after(UP, ControllerUnavailableError("no controller is active"), 6_000)
    sentence = status_of(no_controller, survey(), 6_000, servers).sentence
    assert sentence.index("ZooKeeper does not answer") < sentence.index("no controller is active")


def test_of_many_processes_the_first_are_named() -> None:
    many = [server("broker", each, 0) for each in range(20)] + [CONTROLLER]
    problem = zookeeper_problem(many)
    assert problem is not None
    assert problem.startswith("broker 0, broker 1, broker 2, broker 3, broker 4 and 15 more have no session")


def test_nothing_is_claimed_of_a_zookeeper_that_nobody_told_of() -> None:
    assert "ZooKeeper" not in [kind for kind, *_ in roles(replace(CONTROLLER, session_timeout_ms=None))]
    assert zookeeper_problem(()) is None


def test_a_standby_that_does_not_answer_is_no_help() -> None:
    assert roles(CONTROLLER, replace(STANDBY, session_timeout_ms=None))[:2] == [
        ("controller", "1", "active, epoch 7", "ok"),
        ("controller", "2", "standing by, and does not answer", "warning"),
    ]


def test_a_cluster_of_leaders_has_no_controller_and_says_who_answered() -> None:
    row = role_rows(LED, survey(), ())[0]
    assert (row.kind, row.state, row.tone) == (
        "no controller",
        "leaders are elected by a race in ZooKeeper",
        "ok",
    )
    assert row.address == "broker 2, which answered"
    assert "controller" not in [kind for kind, *_ in roles(cluster=LED)]
    pulse = pulse_after(replace(UP, cluster=LED), ControllerUnavailableError("no broker decides"), 6_000)
    assert status_of(pulse, None, 6_000).word == "No answer"


@pytest.mark.parametrize("has_controller", [True, False])
def test_only_a_controller_that_is_there_can_resign(has_controller: bool) -> None:
    names = [each.name for each in changes_of("overview", has_controller=has_controller)]
    assert ("resign-controller" in names) is has_controller
    assert "resign-coordinator" in names
