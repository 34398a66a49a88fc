"""What the quota for mutations refuses."""

from __future__ import annotations

from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.access.principals import current_caller
from hightide_runtime.errors import ServiceError
from hightide_runtime.quotas.live_quotas import LiveQuotas

from hightide_controller.counters import Counters

__all__ = ["MutationQuota"]


class MutationQuota:
    """What the active controller keeps of the quotas itself."""

    def __init__(self, counters: Counters, live: LiveQuotas) -> None:
        self._counters = counters
        self._live = live

    def admit(self, partition_count: int) -> None:
        """Count partitions that the current request creates or deletes, before it is carried out. Raises
        ServiceError (QUOTA_EXCEEDED) if its caller has to wait (KIP-599)."""
        throttle_time_ms = self._live.mutate(max(1, partition_count))
        if throttle_time_ms:
            self._counters.mutations_refused += 1
            raise ServiceError(
                ErrorCode.ERROR_CODE_QUOTA_EXCEEDED,
                f"{current_caller()} has created and deleted more partitions than its quota allows "
                f"(mutations_per_s); nothing was changed, try again in {throttle_time_ms} ms",
                {"quota": "mutations_per_s", "throttle_time_ms": str(throttle_time_ms)},
            )
