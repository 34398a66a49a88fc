"""Services that log in JSON log nothing else, from their start to their end."""

import json

import pytest
from hightide_local.pytest_plugin import ClusterFactory

pytestmark = pytest.mark.cluster

JSON_LOGS = ("--log-format", "json")


def test_every_line_of_every_service_is_an_object_that_names_the_service(
    hightide_cluster_factory: ClusterFactory,
) -> None:
    cluster = hightide_cluster_factory(
        brokers=1,
        controllers=1,
        coordinators=1,
        broker_arguments=JSON_LOGS,
        controller_arguments=JSON_LOGS,
        coordinator_arguments=JSON_LOGS,
    )
    cluster.stop()
    for service in ("broker-1", "controller-1", "coordinator-1"):
        lines = (cluster.log_directory / f"{service}.log").read_text().splitlines()
        events = [json.loads(line) for line in lines]
        assert {each["service"] for each in events} == {service}
        assert "INFO" in {each["level"] for each in events}
