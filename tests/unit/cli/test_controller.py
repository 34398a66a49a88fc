"""Where leaders decide, there is no controller to show."""

import pytest
from hightide.v1.controller_service_pb2 import COORDINATION_LEADERS, DescribeClusterResponse
from hightide_cli.main import main
from unit.cli.answering_server import AnsweringServer


def test_the_broker_that_answers_is_not_shown_as_the_controller(capsys: pytest.CaptureFixture[str]) -> None:
    server = AnsweringServer()
    server.answers["DescribeCluster"] = DescribeClusterResponse(
        cluster_id="c", controller=server.endpoint, coordination=COORDINATION_LEADERS
    )
    assert main(["controller", "show", "--bootstrap", server.address]) == 1
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith("error: this cluster has no controller: leaders decide for themselves")
