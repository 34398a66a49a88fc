"""How long a broker lets a request wait."""

from __future__ import annotations

from hightide_broker.limits import WAIT_MS_MAX, bounded_wait_ms


def test_a_wait_is_never_negative_nor_longer_than_the_limit() -> None:
    assert bounded_wait_ms(-5) == 0
    assert bounded_wait_ms(7) == 7
    assert bounded_wait_ms(10**9) == WAIT_MS_MAX
