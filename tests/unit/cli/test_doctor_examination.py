"""What a doctor asks a cluster for, and as whom."""

import time
from pathlib import Path

from hightide.v1.broker_service_pb2 import DescribeReplicasResponse, LogDirectoryDescription
from hightide.v1.controller_service_pb2 import COORDINATION_LEADERS, DescribeClusterResponse
from hightide.v1.server_service_pb2 import DescribeServerResponse
from hightide_cli.command_line.client_arguments import NO_FILES, CredentialFiles
from hightide_cli.context.target import Target
from hightide_cli.doctor.examination import examine
from hightide_cli.doctor.findings import Finding, Verdict
from tls_server import Authority
from unit.cli.answering_server import AnsweringServer

TIMEOUT_S = 10.0


def about(check: str, findings: list[Finding]) -> list[tuple[Verdict, str]]:
    return [(each.verdict, each.message) for each in findings if each.check == check]


def answers() -> dict[str, DescribeServerResponse | DescribeReplicasResponse]:
    directory = LogDirectoryDescription(path="/logs", total_bytes=1_000_000, free_bytes=10_000)
    return {
        "DescribeServer": DescribeServerResponse(
            service="broker", instance="1", clock_ms=time.time_ns() // 1_000_000 + 3_600_000
        ),
        "DescribeReplicas": DescribeReplicasResponse(broker_id=1, log_directories=[directory]),
    }


def test_clocks_and_disks_are_asked_for_with_the_credentials_of_the_command_line(tmp_path: Path) -> None:
    """They were asked for without any, and a full disk of a cluster with TLS was "not known"."""
    authority = Authority(tmp_path, "c")
    server = AnsweringServer(answers(), tls=authority.broker())
    mine = authority.client()
    target = Target(
        server.address, "what it says", files=CredentialFiles(mine.ca, mine.certificate, mine.key)
    )
    findings = examine(target, None, TIMEOUT_S)
    assert [verdict for verdict, _ in about("clocks", findings)] == [Verdict.FAIL]
    assert about("disks", findings) == [(Verdict.FAIL, "/logs of broker 1 has 10 kB left (1 %)")]


def test_in_a_cluster_without_a_controller_a_broker_is_what_it_is() -> None:
    """It answers where elsewhere a controller does. It was taken for one, and for wrong about itself."""
    server = AnsweringServer(answers())
    server.answers["DescribeCluster"] = DescribeClusterResponse(
        cluster_id="c", controller=server.endpoint, coordination=COORDINATION_LEADERS
    )
    findings = examine(Target(server.address, "what it says", files=NO_FILES), None, TIMEOUT_S)
    addresses = about("advertised addresses", findings)
    assert addresses == [(Verdict.OK, "all 1 resolve, answer, and are of this cluster")]
    assert about("standbys", findings) == [(Verdict.SKIPPED, "no controller decides here, so none stands by")]
