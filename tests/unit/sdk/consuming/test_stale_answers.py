"""An offset that a leader calls out of range. A broker that is cut off, or just woke up, answers as of then.

The position comes from elsewhere (a seek, a table of one's own, offsets that were reset by hand), so that no
epoch goes with it, and the leader that was deposed cannot see from the request that it is behind.
"""

from collections.abc import Mapping
from typing import Any

import pytest
from hightide.consuming.fetch_call import FetchCall
from hightide.consuming.list_offsets_call import LookUpCall
from hightide.errors import OffsetOutOfRangeError
from hightide.v1.broker_service_pb2 import GetMetadataResponse
from hightide.v1.errors_pb2 import ErrorCode
from unit.sdk.consumer_bench import P0, ConsumerBench, batch, offsets
from unit.sdk.producer_bench import metadata

OLD, NEW = metadata({0: (1, 1)}), metadata({0: (2, 2)})
EVERYBODY_SAYS_OLD = {"boot:9": OLD, "b1:1": OLD, "b2:2": OLD, "b3:3": OLD}


def sought_to_300(**settings: Any) -> ConsumerBench:
    """Offset 300 is committed; broker 1 led until offset 165."""
    bench = ConsumerBench(**settings).started_at(0)
    bench.core.seek(P0, 300)
    return bench


def say_out_of_range(bench: ConsumerBench, call: FetchCall) -> None:
    bench.answer(call, error_code=ErrorCode.ERROR_CODE_OFFSET_OUT_OF_RANGE, high_watermark=165)


def keep_saying_so(
    bench: ConsumerBench, told: Mapping[str, GetMetadataResponse], lasting_ms: float
) -> list[LookUpCall]:
    """Whoever is asked to fetch says so, until this time is over or a look-up is made."""
    until_ms = bench.now_ms + lasting_ms
    while bench.now_ms < until_ms:
        for call in bench.calls():
            if isinstance(call, LookUpCall):
                return [call]
            assert isinstance(call, FetchCall)
            say_out_of_range(bench, call)
        bench.metadata_comes_from(told)
        bench.pass_ms(20)
    return []


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_one_stale_answer_neither_moves_a_consumer_nor_fails_it(reset: str) -> None:
    bench = sought_to_300(offset_reset=reset)
    say_out_of_range(bench, bench.fetch())
    bench.core.raise_errors(bench.now_ms)
    assert bench.core.positions[P0].position == 300
    bench.calls()
    bench.metadata_comes_from(dict.fromkeys(EVERYBODY_SAYS_OLD, NEW))
    call = bench.fetch()
    assert (call.address, call.entries[0].fetch_offset, call.entries[0].leader_epoch) == ("b2:2", 300, 2)
    bench.answer(call, batch(300, 5))
    assert offsets(bench.chunks()) == [(300, 305)]


def test_a_leader_that_others_confirm_is_believed_after_two_seconds() -> None:
    bench = sought_to_300()
    began_ms = bench.now_ms
    (look_up,) = keep_saying_so(bench, EVERYBODY_SAYS_OLD, 10_000)
    assert 2_000 <= bench.now_ms - began_ms < 2_200
    bench.answer_look_up(look_up, 0)
    assert bench.fetch().entries[0].fetch_offset == 0


def test_with_offset_reset_error_it_is_raised_when_others_confirm_it() -> None:
    bench = sought_to_300(offset_reset="error")
    keep_saying_so(bench, EVERYBODY_SAYS_OLD, 1_900)
    bench.core.raise_errors(bench.now_ms)
    keep_saying_so(bench, EVERYBODY_SAYS_OLD, 300)
    with pytest.raises(OffsetOutOfRangeError, match="partition 0"):
        bench.core.raise_errors(bench.now_ms)


@pytest.mark.parametrize("reset", ["earliest", "latest", "error"])
def test_a_leader_that_alone_can_be_reached_is_never_believed(reset: str) -> None:
    bench = sought_to_300(offset_reset=reset, unavailable_timeout_ms=20_000)
    alone = {"boot:9": OLD, "b1:1": OLD}
    assert keep_saying_so(bench, alone, 19_000) == []
    bench.core.raise_errors(bench.now_ms)
    assert keep_saying_so(bench, alone, 1_100) == []
    with pytest.raises(OffsetOutOfRangeError):
        bench.core.raise_errors(bench.now_ms)
    assert bench.core.positions[P0].position == 300


def test_another_answer_in_between_begins_the_two_seconds_anew() -> None:
    bench = sought_to_300()
    keep_saying_so(bench, EVERYBODY_SAYS_OLD, 1_500)
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_OFFSET_NOT_AVAILABLE)
    bench.calls()
    bench.metadata_comes_from(EVERYBODY_SAYS_OLD)
    assert keep_saying_so(bench, EVERYBODY_SAYS_OLD, 1_500) == []
    assert len(keep_saying_so(bench, EVERYBODY_SAYS_OLD, 1_000)) == 1


def test_who_cannot_tell_what_is_committed_is_not_the_only_one_who_is_asked_who_leads() -> None:
    bench = sought_to_300()
    bench.answer(bench.fetch(), error_code=ErrorCode.ERROR_CODE_OFFSET_NOT_AVAILABLE)
    bench.calls()
    bench.metadata_comes_from(dict.fromkeys(EVERYBODY_SAYS_OLD, NEW))
    assert bench.fetch().address == "b2:2"
