"""The quotas of the cluster, as one process keeps them: they change while it runs."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from hightide_runtime.access.principals import Principal, Role, current_caller
from hightide_runtime.quotas.rate_limit import RateLimit
from hightide_runtime.quotas.throttle import Throttle, ThrottleCounts
from hightide_runtime.znodes.quota import Quota
from hightide_runtime.znodes.quotas_znode import ANONYMOUS_CALLERS, DEFAULT_CLIENT, QuotasZnode

PRINCIPALS_KEPT_MAX: Final = 10_000
"""Principals of which a process keeps what they took lately. Beyond that it forgets who took nothing within a
second, and then whoever came first."""
MUTATIONS_DEBT_S_MAX: Final = 3600.0
"""One topic of very many partitions keeps its creator from others for so long at most."""
NO_QUOTA: Final = Quota()


@dataclass(slots=True)
class _Taken:
    """What one principal took lately. None: its quota has no such limit."""

    quota: Quota
    producing: Throttle | None = None
    fetching: Throttle | None = None
    mutations: RateLimit | None = None


class LiveQuotas:
    """What holds now, and what each principal took of it. Belongs to the event loop's thread.

    Servers ask it once a call. Where the cluster has no quotas, that is one comparison. The processes of the
    cluster have no quotas.
    """

    def __init__(self, clock: Callable[[], float] | None = None) -> None:
        """`clock`: seconds of a monotonic clock; None: that of the event loop."""
        self._clock = clock or asyncio.get_running_loop().time
        self._quotas: Mapping[str, Quota] = {}
        self._taken: dict[Principal, _Taken] = {}
        self._is_lifted = False
        self.producing = ThrottleCounts()
        self.fetching = ThrottleCounts()

    def take(self, znode: QuotasZnode | None) -> None:
        """Apply the content of /config/quotas. None: the cluster has no quotas. For `WatchedZnode`."""
        self._quotas = {} if znode is None or self._is_lifted else znode.quotas
        for principal, taken in tuple(self._taken.items()):
            self._apply(taken, self._quota_of(principal))
            if taken.quota == NO_QUOTA:
                del self._taken[principal]

    def lift(self) -> None:
        """Let all go on that is held: the process stops, and others answer it."""
        self._is_lifted = True
        self.take(None)

    def quota_of_caller(self) -> Quota:
        """The quota of whoever makes the current call."""
        return self._taken_by(current_caller()).quota if self._quotas else NO_QUOTA

    def producing_of_caller(self) -> Throttle | None:
        """What holds back the current call, which appends records; None: nothing does."""
        return self._taken_by(current_caller()).producing if self._quotas else None

    def fetching_of_caller(self) -> Throttle | None:
        """What holds back the current call, which reads records; None: nothing does."""
        return self._taken_by(current_caller()).fetching if self._quotas else None

    def mutate(self, partition_count: int) -> int:
        """Count partitions that the current call creates or deletes. Returns 0, or how many milliseconds the
        caller has to wait, and then nothing is counted."""
        limit = self._taken_by(current_caller()).mutations if self._quotas else None
        if limit is None:
            return 0
        now_s = self._clock()
        if (wait_s := limit.wait_s(now_s)) > 0:
            return max(1, int(wait_s * 1000))
        limit.charge(partition_count, now_s)
        return 0

    def _quota_of(self, principal: Principal) -> Quota:
        if principal.role is Role.ANONYMOUS:
            return self._quotas.get(ANONYMOUS_CALLERS, NO_QUOTA)
        if principal.role is not Role.CLIENT:
            return NO_QUOTA
        default = self._quotas.get(DEFAULT_CLIENT, NO_QUOTA)
        own = self._quotas.get(str(principal))
        return default if own is None else own.over(default)

    def _taken_by(self, principal: Principal) -> _Taken:
        taken = self._taken.get(principal)
        if taken is None:
            if len(self._taken) >= PRINCIPALS_KEPT_MAX:
                self._forget_some()
            taken = self._taken[principal] = _Taken(NO_QUOTA)
            self._apply(taken, self._quota_of(principal))
        return taken

    def _apply(self, taken: _Taken, quota: Quota) -> None:
        if quota == taken.quota:
            return
        taken.quota = quota
        taken.producing = self._throttle(taken.producing, quota.produce_bytes_per_s, self.producing)
        taken.fetching = self._throttle(taken.fetching, quota.fetch_bytes_per_s, self.fetching)
        if quota.mutations_per_s is None:
            taken.mutations = None
        elif taken.mutations is None:
            taken.mutations = RateLimit(quota.mutations_per_s, MUTATIONS_DEBT_S_MAX)
        else:
            taken.mutations.set_rate(quota.mutations_per_s, self._clock())

    def _throttle(
        self, throttle: Throttle | None, rate_per_s: int | None, counts: ThrottleCounts
    ) -> Throttle | None:
        if throttle is not None:
            # Calls that it holds go on at the new rate.
            throttle.set_rate(rate_per_s)
        elif rate_per_s is not None:
            return Throttle(rate_per_s, self._clock, counts)
        return throttle if rate_per_s is not None else None

    def _forget_some(self) -> None:
        idle = [principal for principal, taken in self._taken.items() if self._is_idle(taken)]
        for principal in idle or [next(iter(self._taken))]:
            del self._taken[principal]

    def _is_idle(self, taken: _Taken) -> bool:
        throttles = (taken.producing, taken.fetching)
        return all(each is None or each.is_idle for each in throttles) and (
            taken.mutations is None or taken.mutations.is_idle(self._clock())
        )
