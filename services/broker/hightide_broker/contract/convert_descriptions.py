"""DescribeReplicas between the contract's messages and the broker's own dataclasses."""

from __future__ import annotations

from collections.abc import Iterable

from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1.errors_pb2 import ErrorCode

from hightide_broker.contract.descriptions import DescribedDirectory, DescribedReplica


def replicas_out(
    broker_id: int, replicas: Iterable[DescribedReplica], directories: Iterable[DescribedDirectory]
) -> broker_pb2.DescribeReplicasResponse:
    """The answer to DescribeReplicas."""
    response = broker_pb2.DescribeReplicasResponse(broker_id=broker_id)
    for each in replicas:
        response.replicas.add(
            topic=each.topic, topic_id=each.key[0], partition=each.key[1], is_leader=each.is_leader,
            leader_epoch=each.leader_epoch, log_start_offset=each.log_start_offset,
            log_end_offset=each.log_end_offset, high_watermark=each.high_watermark,
            size_bytes=each.size_bytes, log_directory=each.log_directory,
            error_code=ErrorCode.ERROR_CODE_STORAGE_FAILED if each.failed else None,
        )  # fmt: skip
    for directory in directories:
        response.log_directories.add(
            path=directory.path, total_bytes=directory.total_bytes, free_bytes=directory.free_bytes,
            error_code=ErrorCode.ERROR_CODE_STORAGE_FAILED if directory.failed else None,
        )  # fmt: skip
    return response
