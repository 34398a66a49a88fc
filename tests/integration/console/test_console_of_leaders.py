"""A cluster without a controller, as the console shows it."""

from pathlib import Path

import pytest
from hightide_local.cluster import LocalCluster
from hightide_runtime.znodes.coordination_znode import Coordination
from integration.console.console_process import console, wait_for_part

pytestmark = pytest.mark.cluster


def test_a_cluster_of_leaders_shows_that_it_has_no_controller(tmp_path: Path) -> None:
    with (
        LocalCluster(tmp_path, brokers=1, coordinators=0, coordination=Coordination.LEADERS) as led,
        console(led.bootstrap, "--allow-changes") as client,
    ):
        roles = wait_for_part(client, "/events/overview", "roles", "no controller")
        assert "broker 1, which answered" in roles
        assert "resign-controller" not in client.get("/").text
