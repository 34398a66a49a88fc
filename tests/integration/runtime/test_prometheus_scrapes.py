"""What Prometheus sees of a cluster: each metric that is declared and no other, before and after a kill."""

from __future__ import annotations

import os
import re
import socket
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest
from hightide import Admin, Consumer, Producer, TopicPartition
from hightide.errors import TopicAlreadyExistsError
from hightide_broker.metrics import METRICS as BROKER
from hightide_controller.metrics import METRICS as CONTROLLER
from hightide_coordinator.metrics import METRICS as COORDINATOR
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until
from hightide_runtime.process.environment import service_environment
from hightide_runtime.process.process_metrics import METRICS as PROCESS
from hightide_runtime.serving.rpc_metrics import METRICS as RPC
from hightide_runtime.telemetry.metric_declarations import MetricDeclaration, MetricKind

pytestmark = pytest.mark.cluster

ANYWHERE = ("--prometheus-listen", "127.0.0.1:0")
TABLES = {"broker": BROKER, "controller": CONTROLLER, "coordinator": COORDINATOR}
TOPIC, SYNCED = "tides", "synced"
RECORDS, READ = 30, 10
PATIENCE_S = 60.0
SAMPLE = re.compile(r"^(\w+)(?:\{(.*)\})? (\S+)$")


class Scrape:
    """What a process tells Prometheus at one moment."""

    def __init__(self, text: str) -> None:
        self.families = dict(re.findall(r"^# TYPE (\w+) (\w+)$", text, re.MULTILINE))
        found = (SAMPLE.match(line) for line in text.splitlines() if not line.startswith("#"))
        self._samples = [(each[1], each[2] or "", float(each[3])) for each in found if each]

    def value(self, name: str, *labels: str) -> float:
        """The sum of the samples that have all of these labels, such as `reason="process_died"`."""
        return sum(
            value
            for sample, said, value in self._samples
            if sample == name and all(label in said for label in labels)
        )


def scrape(cluster: LocalCluster, name: str) -> Scrape:
    log = (cluster.log_directory / f"{name}.log").read_text()
    url = re.findall(r"the metrics at (http://\S+)", log)[-1]
    with urllib.request.urlopen(url, timeout=30) as answer:
        body: bytes = answer.read()
    return Scrape(body.decode())


def all_of(cluster: LocalCluster, *names: str) -> Callable[..., float]:
    """Adds a sample up over some processes."""
    return lambda *sample: sum(scrape(cluster, name).value(*sample) for name in names)


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    with LocalCluster(
        tmp_path_factory.mktemp("scraped"),
        controllers=1,
        coordinators=1,
        broker_arguments=ANYWHERE,
        controller_arguments=ANYWHERE,
        coordinator_arguments=(*ANYWHERE, "--group-lag-interval-ms", "100"),
    ) as running:
        with Admin(running.bootstrap) as admin:
            admin.create_topic(TOPIC, 3, 3, configs={"min.insync.replicas": "3"})
            admin.create_topic(SYNCED, 1, 3, configs={"flush": "fsync"})
            with pytest.raises(TopicAlreadyExistsError):
                admin.create_topic(TOPIC, 1, 1)
            with Producer(running.bootstrap) as producer:
                for number in range(RECORDS):
                    producer.send(TOPIC, value=b"%d" % number, partition=0)
                producer.send(SYNCED, value=b"on disk", partition=0)
                producer.flush()
            with Consumer(running.bootstrap, offset_reset="earliest") as consumer:
                consumer.assign([TopicPartition(TOPIC, 0)])
                count = 0
                while count < RECORDS:
                    found = len(consumer.poll(PATIENCE_S))
                    assert found, f"{count} of {RECORDS} records are there"
                    count += found
            admin.commit_group_offsets("readers", {TopicPartition(TOPIC, 0): READ})
        yield running


def names_in_prometheus(metrics: Sequence[MetricDeclaration]) -> dict[str, str]:
    """Each family with its type. The exporter's text format calls a counter's family by its sample's name."""
    return {metric.prometheus_name: metric.kind.value for metric in metrics}


@pytest.mark.parametrize("service", TABLES)
def test_each_metric_that_is_declared_is_scraped_and_no_other(cluster: LocalCluster, service: str) -> None:
    declared = names_in_prometheus((*TABLES[service], *PROCESS, *RPC))

    def undeclared_or_missing() -> set[tuple[str, str]]:
        return set(scrape(cluster, f"{service}-1").families.items()) ^ {
            *declared.items(),
            ("target_info", "gauge"),
        }

    # Some are there once something was looked up, such as the lag of a group.
    wait_until("each is scraped", undeclared_or_missing, PATIENCE_S, lambda wrong: not wrong)
    assert set(declared.values()) == {kind.value for kind in MetricKind}


def test_what_moved_is_counted_where_it_moved(cluster: LocalCluster) -> None:
    total = all_of(cluster, "broker-1", "broker-2", "broker-3")
    received = "hightide_broker_received_records_total"
    assert total(received) == RECORDS + 1
    assert total("hightide_broker_topic_received_records_total", f'topic="{TOPIC}"') == RECORDS
    assert total("hightide_broker_sent_records_total") >= RECORDS
    assert total("hightide_broker_replicated_in_records_total") == 2 * (RECORDS + 1)
    size_bytes = total("hightide_broker_received_bytes_total")
    assert size_bytes > 0
    assert total("hightide_broker_replicated_in_bytes_total") == 2 * size_bytes
    assert total("hightide_broker_replicated_out_bytes_total") == 2 * size_bytes
    assert total("hightide_broker_log_size_bytes") == 3 * size_bytes


def test_calls_and_fsyncs_are_timed_and_refusals_have_their_reason(cluster: LocalCluster) -> None:
    total = all_of(cluster, "broker-1", "broker-2", "broker-3")
    produce = 'rpc_method="hightide.v1.BrokerService/Produce"'
    assert total("rpc_server_call_duration_seconds_count", produce) >= 1
    assert total("rpc_server_call_duration_seconds_bucket", produce, 'le="+Inf"') >= 1
    assert total("hightide_broker_fsync_duration_seconds_count") >= 3
    controller = scrape(cluster, "controller-1")
    refused = 'rpc_method="hightide.v1.ControllerService/CreateTopic"', 'error_type="TOPIC_ALREADY_EXISTS"'
    assert controller.value("rpc_server_call_errors_total", *refused) == 1
    assert controller.value("hightide_zookeeper_connected") == 1
    assert controller.value("hightide_zookeeper_request_duration_seconds_count") > 0
    assert controller.value("process_memory_usage_bytes") > 10_000_000


def test_the_lag_of_a_group_is_told_where_it_is_looked_up(cluster: LocalCluster) -> None:
    def lag() -> float:
        return scrape(cluster, "coordinator-1").value("hightide_coordinator_group_lag", 'group="readers"')

    wait_until("the lag of the group is known", lambda: lag() == RECORDS - READ, PATIENCE_S)


def test_a_broker_that_is_killed_shows_as_it_goes_and_as_it_comes_back(cluster: LocalCluster) -> None:
    left = all_of(cluster, "broker-1", "broker-2")
    controller = all_of(cluster, "controller-1")
    led = scrape(cluster, "broker-3").value("hightide_broker_leaders")
    died = "hightide_controller_elections_total", 'reason="process_died"'
    under = "hightide_broker_partitions_under_replicated"
    assert (left(under), controller(*died)) == (0, 0)
    assert led >= 1
    cluster.kill("broker-3")
    wait_until("all four partitions lack a replica", lambda: left(under) == 4, PATIENCE_S)
    assert controller(*died) == led
    assert left("hightide_broker_leaders") == 4
    assert left("hightide_broker_partitions_under_min_isr") == 3
    # The controller reads what leaders have written once in a while.
    few = "hightide_controller_partitions_under_min_isr"
    wait_until("the controller has heard of it", lambda: controller(few) == 3, PATIENCE_S)
    assert controller("hightide_controller_unclean_elections_total") == 0
    took = "hightide_controller_failover_duration_seconds_count", 'reason="process_died"'
    wait_until("the failover is over, and timed", lambda: controller(*took) == 1, PATIENCE_S)
    cluster.restart("broker-3")
    wait_until("the replicas are in sync again", lambda: left(under) == 0, PATIENCE_S)
    assert left("hightide_broker_isr_expansions_total") >= 4
    wait_until("the controller has heard of that, too,", lambda: controller(few) == 0, PATIENCE_S)


@pytest.mark.parametrize("service", TABLES)
def test_a_port_that_is_taken_is_named_in_one_line(service: str, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        data = ("--data-dir", str(tmp_path)) if service == "broker" else ()
        arguments = (f"--{service}-id", "1", *data, "--prometheus-listen", f"127.0.0.1:{port}")
        ended = subprocess.run(
            [sys.executable, "-m", f"hightide_{service}.main", *arguments],
            env=service_environment(dict(os.environ)),
            capture_output=True,
            text=True,
            timeout=100,
            check=False,
        )
    assert ended.returncode == 1
    assert ended.stderr.splitlines()[-1] == (
        f"hightide-{service}: error: port {port} of 127.0.0.1 is in use by another process; stop it, or give "
        "--prometheus-listen another port"
    )
