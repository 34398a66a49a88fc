"""Asks the coordinators of a local cluster for the states of its groups."""

from dataclasses import dataclass
from types import TracebackType
from typing import Self

import grpc
from hightide.calls.tls_files import chosen_tls_files
from hightide.transport.opening import channel_opener
from hightide.v1 import coordinator_service_pb2 as pb
from hightide.v1.coordinator_service_pb2_grpc import CoordinatorServiceStub
from hightide_local.cluster import LocalCluster

_ANSWER_S = 5.0


@dataclass(frozen=True, slots=True)
class WatchedGroup:
    """The state of one group."""

    is_stable: bool
    member_count: int
    generation: int


class GroupWatch:
    """A channel to each coordinator of the cluster. Use it in a with-block, which closes the channels."""

    def __init__(self, cluster: LocalCluster) -> None:
        opened = channel_opener(chosen_tls_files())
        self._channels = {address: opened(address) for address in cluster.coordinators.values()}

    def listings(self) -> dict[str, WatchedGroup]:
        """All groups by name, from the active coordinator. Empty while no coordinator is active."""
        request = pb.ListGroupsRequest()
        for channel in self._channels.values():
            try:
                answer = CoordinatorServiceStub(channel).ListGroups(request, timeout=_ANSWER_S)
            except grpc.RpcError:
                continue
            return {
                each.group: WatchedGroup(
                    each.state == pb.GROUP_STATE_STABLE, each.member_count, each.generation
                )
                for each in answer.groups
            }
        return {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close the channels."""
        for channel in self._channels.values():
            channel.close()
