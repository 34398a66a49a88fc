"""Which quota holds for whom, and what becomes of it when it changes."""

from collections.abc import Iterator
from contextlib import contextmanager

import pytest
from hightide_runtime.access.principals import ANONYMOUS, CALLER, Principal, Role
from hightide_runtime.quotas import live_quotas
from hightide_runtime.quotas.live_quotas import LiveQuotas
from hightide_runtime.znodes.quota import Quota
from hightide_runtime.znodes.quotas_znode import QuotasZnode

ALICE, BOB = Principal(Role.CLIENT, "alice"), Principal(Role.CLIENT, "bob")


@contextmanager
def calling(principal: Principal) -> Iterator[None]:
    token = CALLER.set(principal)
    yield
    CALLER.reset(token)


class Rig:
    def __init__(self, **quotas: Quota) -> None:
        self.now_s = 100.0
        self.live = LiveQuotas(lambda: self.now_s)
        self.set(**quotas)

    def set(self, **quotas: Quota) -> None:
        named = {"default": "client/*", "anonymous": "anonymous"}
        self.live.take(QuotasZnode({named.get(who, f"client/{who}"): each for who, each in quotas.items()}))

    def quota_of(self, principal: Principal) -> Quota:
        with calling(principal):
            return self.live.quota_of_caller()

    def mutate(self, principal: Principal, count: int) -> int:
        with calling(principal):
            return self.live.mutate(count)


def test_an_own_limit_comes_before_that_of_the_default_and_each_limit_for_itself() -> None:
    rig = Rig(
        default=Quota(produce_bytes_per_s=10, calls_max=5),
        alice=Quota(produce_bytes_per_s=20, mutations_per_s=3),
    )
    assert rig.quota_of(ALICE) == Quota(produce_bytes_per_s=20, mutations_per_s=3, calls_max=5)
    assert rig.quota_of(BOB) == Quota(produce_bytes_per_s=10, calls_max=5)


@pytest.mark.parametrize("role", [Role.BROKER, Role.CONTROLLER, Role.COORDINATOR])
def test_the_processes_of_the_cluster_have_no_quotas(role: Role) -> None:
    rig = Rig(default=Quota(calls_max=1), anonymous=Quota(calls_max=1), alice=Quota(calls_max=1))
    assert rig.quota_of(Principal(role, "alice")) == Quota()


def test_those_who_are_anonymous_have_one_quota_together_and_not_that_of_clients() -> None:
    rig = Rig(default=Quota(calls_max=1), anonymous=Quota(mutations_per_s=10))
    assert rig.quota_of(ANONYMOUS) == Quota(mutations_per_s=10)
    assert rig.mutate(ANONYMOUS, 30) == 0
    assert rig.mutate(ANONYMOUS, 1) == 2_000


def test_each_client_of_the_default_counts_for_itself() -> None:
    rig = Rig(default=Quota(mutations_per_s=10))
    assert rig.mutate(ALICE, 100) == 0
    assert rig.mutate(ALICE, 1) > 0
    assert rig.mutate(BOB, 1) == 0


def test_mutations_beyond_the_rate_are_refused_until_they_are_paid_and_a_refusal_costs_nothing() -> None:
    rig = Rig(alice=Quota(mutations_per_s=10))
    assert rig.mutate(ALICE, 50) == 0
    assert [rig.mutate(ALICE, 50) for _ in range(3)] == [4_000] * 3
    rig.now_s += 4
    assert rig.mutate(ALICE, 1) == 0


def test_a_throttle_is_kept_over_changes_of_other_quotas_so_nobody_is_forgiven_by_them() -> None:
    rig = Rig(alice=Quota(produce_bytes_per_s=1_000))
    with calling(ALICE):
        throttle = rig.live.producing_of_caller()
        assert throttle is not None
        throttle.charge(11_000)
        rig.set(alice=Quota(produce_bytes_per_s=1_000, calls_max=7), bob=Quota(calls_max=1))
        assert rig.live.producing_of_caller() is throttle
        assert throttle.told_ms == 5_000


def test_a_quota_that_is_taken_away_holds_nothing_back_any_more() -> None:
    rig = Rig(alice=Quota(produce_bytes_per_s=1_000, fetch_bytes_per_s=1_000))
    with calling(ALICE):
        producing = rig.live.producing_of_caller()
        assert producing is not None
        producing.charge(11_000)
        rig.set(alice=Quota(fetch_bytes_per_s=1_000))
        assert rig.live.producing_of_caller() is None
        assert producing.told_ms == 0
        assert rig.live.fetching_of_caller() is not None
        rig.live.take(None)
        assert rig.live.fetching_of_caller() is None


def test_once_quotas_are_lifted_no_change_brings_them_back() -> None:
    rig = Rig(alice=Quota(calls_max=1))
    rig.live.lift()
    rig.set(alice=Quota(calls_max=1))
    assert rig.quota_of(ALICE) == Quota()


def test_who_took_nothing_lately_is_forgotten_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live_quotas, "PRINCIPALS_KEPT_MAX", 3)
    rig = Rig(default=Quota(mutations_per_s=1))
    rig.mutate(ALICE, 100)
    for number in range(10):
        rig.mutate(Principal(Role.CLIENT, str(number)), 0)
    assert rig.mutate(ALICE, 1) == 99_000
    assert len(rig.live._taken) <= 3
