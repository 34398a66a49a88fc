"""Quotas on real processes: who takes more than its quota waits, and nobody else does (KIP-13, KIP-219)."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status
from hightide import Admin, Consumer, Producer, Quota, TopicPartition
from hightide.errors import InvalidRequestError, QuotaExceededError
from hightide.v1 import broker_service_pb2 as pb
from hightide.v1 import broker_service_pb2_grpc
from hightide_local.certificates import CertificateFiles
from hightide_local.cluster import LocalCluster
from hightide_local.histories.waiting import wait_until

pytestmark = pytest.mark.cluster

MB = 1_000_000
RATE = MB
LARGE = 10 * MB
RECORD = b"x" * 50_000
PATIENCE_S = 90
#: What LARGE takes at RATE, less the burst of a second.
AT_RATE_S = LARGE / RATE - 1
#: One request may be as large as this, and goes over the quota.
PIECE_BYTES = 2 * MB
PARKED_MAX = 100


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalCluster]:
    """One broker, which knows its clients by their certificates."""
    arguments = ("--parked-fetches-max", str(PARKED_MAX))
    directory = tmp_path_factory.mktemp("quotas")
    with LocalCluster(directory, brokers=1, controllers=1, tls=True, broker_arguments=arguments) as started:
        yield started


class Client:
    """A client with a certificate of its own."""

    def __init__(self, cluster: LocalCluster, name: str) -> None:
        assert cluster.certificates is not None
        self.principal = f"client/{name}"
        self._cluster = cluster
        self._files: CertificateFiles = cluster.certificates.issue(self.principal)

    @property
    def _tls(self) -> dict[str, Any]:
        files = self._files
        return {
            "tls_ca": str(files.ca), "tls_certificate": str(files.certificate), "tls_key": str(files.key),
        }  # fmt: skip

    def admin(self) -> Admin:
        return Admin(self._cluster.bootstrap, **self._tls)

    def producer(self) -> Producer:
        return Producer(self._cluster.bootstrap, batch_bytes_max=200_000, **self._tls)

    def consumer(self, partition: TopicPartition) -> Consumer:
        consumer = Consumer(self._cluster.bootstrap, offset_reset="earliest", **self._tls)
        consumer.assign([partition])
        return consumer

    @contextmanager
    def connection(self) -> Iterator[Any]:
        """The broker's RPCs on a connection of their own: a client that waits for nothing it is told."""
        files = self._files
        credentials = grpc.ssl_channel_credentials(
            files.ca.read_bytes(), files.key.read_bytes(), files.certificate.read_bytes()
        )
        options = [("grpc.use_local_subchannel_pool", 1)]
        with grpc.secure_channel(self._cluster.bootstrap, credentials, options) as channel:
            yield broker_service_pb2_grpc.BrokerServiceStub(channel)


@pytest.fixture
def alice(cluster: LocalCluster) -> Client:
    return Client(cluster, "alice")


@pytest.fixture
def bob(cluster: LocalCluster) -> Client:
    return Client(cluster, "bob")


@pytest.fixture
def operator(cluster: LocalCluster) -> Iterator[Admin]:
    """Takes the quotas of the test away at its end."""
    with Client(cluster, "operator").admin() as admin:
        yield admin
        for principal, quota in admin.describe_quotas().items():
            names = [name for name in Quota.__slots__ if getattr(quota, name) is not None]
            admin.alter_quota(principal, reset=names)


_topics = iter(range(10**6))


def new_topic(operator: Admin) -> TopicPartition:
    topic = f"quotas-{next(_topics)}"
    operator.create_topic(topic, 1, 1)
    return TopicPartition(topic, 0)


def log_bytes(operator: Admin, partition: TopicPartition) -> int:
    """How much a partition has, by the broker's own account."""
    return sum(each.size_bytes for each in operator.describe_replicas([partition.topic]).replicas)


def send(producer: Producer, partition: TopicPartition, size_bytes: int = LARGE) -> None:
    """Send so much, and wait until all is acknowledged."""
    for _ in range(size_bytes // len(RECORD)):
        producer.send(partition.topic, RECORD, partition=partition.partition)
    producer.flush(PATIENCE_S)


def produce(stub: Any, partition: TopicPartition, size_bytes: int = 500_000, timeout_ms: int = 30_000) -> Any:
    request = pb.ProduceRecordsRequest(
        topic=partition.topic, partition=partition.partition, timeout_ms=timeout_ms,
        records=[pb.PlainRecord(value=b"x" * size_bytes)],
    )  # fmt: skip
    return stub.ProduceRecords(request, timeout=PATIENCE_S)


def fetch(stub: Any, partition: TopicPartition, wait_ms: int, offset: int = 0) -> Any:
    request = pb.FetchRecordsRequest(
        topic=partition.topic, partition=partition.partition, offset=offset, max_wait_ms=wait_ms,
        max_records=10_000,
    )  # fmt: skip
    return stub.FetchRecords(request, timeout=PATIENCE_S)


def reason_of(call: Callable[[], object]) -> str:
    with pytest.raises(grpc.RpcError) as failed:
        call()
    info = error_details_pb2.ErrorInfo()
    rpc_status.from_call(failed.value).details[0].Unpack(info)
    reason: str = info.reason
    return reason


def test_a_producer_gets_its_quota_and_another_one_is_not_slowed(
    alice: Client, bob: Client, operator: Admin
) -> None:
    partition, other = new_topic(operator), new_topic(operator)
    operator.alter_quota(alice.principal, Quota(produce_bytes_per_s=RATE))
    with alice.connection() as stub:
        quota_holds(stub, new_topic(operator))
    with alice.producer() as slow, bob.producer() as fast, ThreadPoolExecutor(1) as sending:
        began_s = time.monotonic()
        sent = sending.submit(send, slow, partition, LARGE)
        send(fast, other)
        assert fast.throttled_ms == 0
        while wait([sent], 0.2).not_done:
            appended = log_bytes(operator, partition)
            assert appended <= RATE * (time.monotonic() - began_s + 1) + PIECE_BYTES
        sent.result()
        took_s = time.monotonic() - began_s
        assert 1_000 < slow.throttled_ms < 2_000 * AT_RATE_S, "it gets half of its quota at least"
    assert took_s > AT_RATE_S - PIECE_BYTES / RATE


def test_a_consumer_gets_its_quota_and_another_one_is_not_slowed(
    alice: Client, bob: Client, operator: Admin
) -> None:
    partition = new_topic(operator)
    with bob.producer() as producer:
        send(producer, partition)
    operator.alter_quota(alice.principal, Quota(fetch_bytes_per_s=RATE))
    with alice.connection() as stub:
        wait_until("it is throttled", lambda: fetch(stub, partition, 0).throttle_time_ms > 0, PATIENCE_S)

    def read(client: Client) -> tuple[float, float]:
        began_s, count = time.monotonic(), 0
        with client.consumer(partition) as consumer:
            while count < LARGE // len(RECORD):
                count += len(consumer.poll(1.0))
            return time.monotonic() - began_s, consumer.throttled_ms

    with ThreadPoolExecutor(1) as reading:
        slow = reading.submit(read, alice)
        _, throttled_ms = read(bob)
        assert throttled_ms == 0
        took_s, throttled_ms = slow.result(PATIENCE_S)
    assert took_s > AT_RATE_S - PIECE_BYTES / RATE
    assert 1_000 < throttled_ms < 2_000 * AT_RATE_S, "it gets half of its quota at least"


def test_the_broker_holds_a_client_that_does_not_wait_as_it_is_told(alice: Client, operator: Admin) -> None:
    partition = new_topic(operator)
    operator.alter_quota(alice.principal, Quota(produce_bytes_per_s=RATE))
    with alice.connection() as one, alice.connection() as another, ThreadPoolExecutor(8) as calling:
        quota_holds(one, partition)
        began_s = time.monotonic()
        calls = [calling.submit(produce, stub, partition) for stub in (one, another) for _ in range(4)]
        answers = [call.result() for call in calls]
    # Eight times half a second's worth; the first may have come when all was paid, and the last waits after.
    assert time.monotonic() - began_s > 8 * 0.5 - 1 - 0.5
    assert any(answer.throttle_time_ms for answer in answers)
    assert len({answer.base_offset for answer in answers}) == 8


def test_what_is_not_paid_for_in_time_is_not_appended_and_the_error_says_how_long_to_wait(
    alice: Client, operator: Admin
) -> None:
    partition = new_topic(operator)
    operator.alter_quota(alice.principal, Quota(produce_bytes_per_s=1))
    with alice.connection() as stub:
        quota_holds(stub, partition)
        before = log_bytes(operator, partition)
        assert reason_of(lambda: produce(stub, partition, timeout_ms=100)) == "QUOTA_EXCEEDED"
    assert log_bytes(operator, partition) == before


def quota_holds(stub: Any, partition: TopicPartition) -> None:
    """Produce until the broker knows a quota of produce_bytes_per_s, which the client has by now."""
    wait_until("it is throttled", lambda: produce(stub, partition).throttle_time_ms > 0, PATIENCE_S)


def test_a_quota_that_is_taken_away_holds_nobody_any_more(alice: Client, operator: Admin) -> None:
    partition = new_topic(operator)
    operator.alter_quota(alice.principal, Quota(produce_bytes_per_s=1))
    with alice.connection() as stub, ThreadPoolExecutor(1) as calling:
        quota_holds(stub, partition)
        held = calling.submit(produce, stub, partition)
        with pytest.raises(TimeoutError):
            held.result(1)
        began_s = time.monotonic()
        operator.alter_quota(alice.principal, reset=["produce_bytes_per_s"])
        assert held.result().throttle_time_ms == 0
        # It owed 30 s.
        assert time.monotonic() - began_s < 20


def test_many_connections_of_one_client_that_park_fetches_leave_room_for_others(
    alice: Client, bob: Client, operator: Admin
) -> None:
    partition = new_topic(operator)
    operator.alter_quota(alice.principal, Quota(fetch_bytes_per_s=RATE))
    refused, parked, end = [], [], threading.Event()

    def park() -> None:
        with alice.connection() as stub:
            request = pb.FetchRecordsRequest(
                topic=partition.topic, partition=0, offset=0, max_wait_ms=30_000, max_records=1
            )
            call = stub.FetchRecords.future(request, timeout=PATIENCE_S)
            call.add_done_callback(lambda done: refused.append(done.code()) if not end.is_set() else None)
            parked.append(call)
            end.wait(PATIENCE_S)
            call.cancel()

    threads = [threading.Thread(target=park) for _ in range(2 * PARKED_MAX)]
    for thread in threads:
        thread.start()
    try:
        # Half of the places is for one client at most, and the rest is refused.
        wait_until("half is refused", lambda: len(refused) >= 2 * PARKED_MAX - PARKED_MAX // 2, PATIENCE_S)
        with bob.connection() as stub, ThreadPoolExecutor(1) as calling:
            waiting: Future[Any] = calling.submit(fetch, stub, partition, 20_000)
            with bob.connection() as writing:
                produce(writing, partition, 100)
            assert len(waiting.result().records) == 1
    finally:
        end.set()
        for thread in threads:
            thread.join()
    assert set(refused) <= {grpc.StatusCode.RESOURCE_EXHAUSTED, grpc.StatusCode.OK}


def parked_fetch(stub: Any, partition: TopicPartition) -> Any:
    """A fetch that waits at the broker until there is a record. It asks again when it is refused, since a
    call of the test may have its place, and when it has waited as long as a fetch may."""

    def records() -> Any:
        try:
            return fetch(stub, partition, 20_000).records
        except grpc.RpcError:
            return []

    return wait_until("the parked fetch has a record", records, PATIENCE_S)


def test_calls_and_connections_beyond_the_quota_are_refused(
    alice: Client, bob: Client, operator: Admin
) -> None:
    partition = new_topic(operator)
    operator.alter_quota(alice.principal, Quota(calls_max=3, connections_max=1))
    with alice.connection() as stub, alice.connection() as second, ThreadPoolExecutor(3) as calling:

        def is_refused(by: Any) -> bool:
            try:
                fetch(by, partition, 0)
            except grpc.RpcError:
                return True
            return False

        parked = [calling.submit(parked_fetch, stub, partition)]
        wait_until("the second connection is refused", lambda: is_refused(second), PATIENCE_S)
        assert reason_of(lambda: fetch(second, partition, 0)) == "QUOTA_EXCEEDED"
        assert not fetch(stub, partition, 0).records, "the connection that has calls may have more"
        parked += [calling.submit(parked_fetch, stub, partition) for _ in range(2)]
        wait_until("a fourth call is refused", lambda: is_refused(stub), PATIENCE_S)
        assert reason_of(lambda: fetch(stub, partition, 0)) == "QUOTA_EXCEEDED"
        with bob.connection() as other:
            produce(other, partition, 100)
        assert [len(each.result()) for each in parked] == [1, 1, 1]


def test_partitions_beyond_the_quota_are_refused_until_they_are_paid_for(
    alice: Client, bob: Client, operator: Admin
) -> None:
    operator.alter_quota(alice.principal, Quota(mutations_per_s=1))
    with alice.admin() as limited, bob.admin() as other:

        def told_ms(partitions: int = 60) -> int:
            try:
                limited.create_topic(f"mutations-{next(_topics)}", partitions, 1)
            except QuotaExceededError as error:
                return error.throttle_time_ms
            return 0

        # A minute, of which a second was saved: longer than the 30 s that an order of this client may take.
        assert 25_000 < wait_until("it is limited", told_ms, PATIENCE_S) <= 59_000
        other.create_topic(f"mutations-{next(_topics)}", 1, 1)
        operator.alter_quota(alice.principal, Quota(mutations_per_s=20))
        # At the old rate it would have to wait for longer.
        wait_until("the new rate holds", lambda: told_ms(1) == 0, 20)


def test_quotas_are_described_and_what_makes_no_sense_is_refused(alice: Client, operator: Admin) -> None:
    assert operator.describe_quotas() == {}
    quota = Quota(produce_bytes_per_s=5, calls_max=7)
    assert operator.alter_quota("client/*", quota, validate_only=True) == quota
    assert operator.describe_quotas() == {}
    assert operator.alter_quota("client/*", quota) == quota
    changed = operator.alter_quota("client/*", Quota(calls_max=8), reset=["produce_bytes_per_s"])
    assert changed == Quota(calls_max=8)
    assert operator.describe_quotas() == {"client/*": Quota(calls_max=8)}
    for nobody in ("broker/1", "alice", "client/", ""):
        with pytest.raises(InvalidRequestError, match="cannot have a quota"):
            operator.alter_quota(nobody, quota)
