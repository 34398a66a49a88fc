"""A consumer's membership: finding the coordinator, registering, answering, coming back, leaving."""

import pytest
from hightide.consumer_group.membership_state import MembershipState
from hightide.consumer_group.ownership import OwnershipChange
from hightide.errors import (
    AddressUnreachableError,
    AnswerOutOfTurnError,
    BrokersUnavailableError,
    ConsumerIdTakenError,
    CoordinatorUnavailableError,
    FencedInstanceError,
    InvalidSessionTimeoutError,
    NotAuthenticatedError,
    NotCoordinatorError,
    SessionTimedOutError,
    StaleCoordinatorEpochError,
    UnknownMemberError,
)
from hightide.v1.coordinator_service_pb2 import (
    OFFSET_RESET_LARGEST,
    CommitOffsetsResponse,
    ConsumerRegistered,
    OffsetCommitResult,
    RegisterConsumerResponse,
    StartFetcher,
)
from unit.sdk.consumer_bench import batch
from unit.sdk.group_bench import (
    SESSION_TIMEOUT_MS,
    GroupBench,
    changes,
    owned,
    parts,
    positions,
    starts,
    with_coordinator,
)
from unit.sdk.producer_bench import TOPIC

BROKEN = AddressUnreachableError("the connection broke", address="co1:1")


def reading(**settings: object) -> GroupBench:
    """A member that owns partition 0 and has 10 records of it waiting."""
    bench = GroupBench(**settings).register()  # type: ignore[arg-type]
    bench.give(0)
    bench.serve(p0=batch(0, 10))
    bench.tell_user()
    bench.said()
    return bench


# -- registering ---------------------------------------------------------------------------------------------


def test_it_asks_a_broker_for_the_coordinator_and_registers_there() -> None:
    bench = GroupBench(topics={TOPIC: 2}, offset_reset="latest", assignor="range", instance_id="i-7")
    bench.answer_metadata()
    assert bench.stream.address == "co1:1"
    said = bench.registration.registration
    assert (said.group, said.member_id, said.instance_id, said.assignor) == ("readers", "", "i-7", "range")
    assert [(each.topic, each.streams) for each in said.topics] == [(TOPIC, 2)]
    assert said.offset_reset == OFFSET_RESET_LARGEST
    assert said.session_timeout_ms == SESSION_TIMEOUT_MS


def test_it_waits_until_a_coordinator_is_active() -> None:
    bench = GroupBench()
    for _ in range(20):
        bench.pass_ms(600)
        bench.answer_metadata(with_coordinator(None))
    assert bench.streams == []
    bench.register()
    assert bench.membership.state is MembershipState.MEMBER


def test_nobody_is_asked_often_while_no_coordinator_is_active() -> None:
    bench = GroupBench()
    asked = 0
    for _ in range(1_000):
        bench.pass_ms(10)
        asked += len(bench.asked)
        bench.answer_metadata(with_coordinator(None))
    assert asked < 45


def test_a_coordinator_that_is_none_names_the_right_one() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    bench.end(NotCoordinatorError("co2 is", metadata={"coordinator_address": "co2:2", "shard": "0"}))
    bench.pass_ms(100)
    assert bench.stream.address == "co2:2"


def tried_while_the_brokers_name_the_dead_one(for_ms: int) -> tuple[int, int]:
    """A member's coordinator dies, and nobody knows yet. How often it tries that one, and asks a broker."""
    bench = reading()
    bench.end(BROKEN)
    tried = asked = 0
    for _ in range(0, for_ms, 10):
        bench.pass_ms(10)
        asked += len(bench.asked)
        bench.answer_metadata()
        if bench.membership.state is MembershipState.REGISTERING:
            tried += 1
            bench.end(BROKEN)
    return tried, asked


def test_a_coordinator_that_has_just_refused_is_not_tried_again_while_brokers_still_name_it() -> None:
    tried, asked = tried_while_the_brokers_name_the_dead_one(for_ms=290)
    assert tried == 1
    assert asked > 2


def test_a_coordinator_that_is_back_where_it_was_is_tried_again_soon() -> None:
    tried, _ = tried_while_the_brokers_name_the_dead_one(for_ms=1_000)
    assert tried >= 2


def test_another_coordinator_than_the_one_that_refused_is_tried_at_once() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    bench.end(BROKEN)
    bench.pass_ms(50)
    bench.answer_metadata(with_coordinator(2))
    assert [each.address for each in bench.streams] == ["co1:1", "co2:2"]


def test_a_coordinator_that_is_named_by_the_one_that_is_none_is_tried_although_it_has_just_refused() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    bench.end(BROKEN)
    bench.pass_ms(50)
    bench.answer_metadata(with_coordinator(2))
    bench.end(NotCoordinatorError("co1 is", metadata={"coordinator_address": "co1:1", "shard": "0"}))
    bench.pass_ms(50)
    assert [each.address for each in bench.streams] == ["co1:1", "co2:2", "co1:1"]


def test_where_none_is_named_the_brokers_are_asked_again() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    bench.end(NotCoordinatorError("nobody is", metadata={}))
    bench.pass_ms(100)
    bench.answer_metadata(with_coordinator(2))
    assert [each.address for each in bench.streams] == ["co1:1", "co2:2"]


def test_a_session_timeout_that_is_far_too_short_is_the_coordinators_to_refuse() -> None:
    bench = GroupBench(session_timeout_ms=1)
    bench.answer_metadata()
    bench.now_ms += 50
    bench.poll()
    assert bench.core.cancelled == []
    bench.end(InvalidSessionTimeoutError("1 ms is below 500 ms"))
    assert bench.membership.state is MembershipState.REFUSED


def test_a_refusal_that_does_not_pass_is_raised() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    bench.end(InvalidSessionTimeoutError("9000 ms is below 10000 ms"))
    with pytest.raises(InvalidSessionTimeoutError, match="below 10000"):
        bench.membership.raise_errors(bench.now_ms)
    bench.pass_s(20)
    assert len(bench.streams) == 1


def test_a_consumer_id_that_stays_taken_for_a_session_timeout_is_taken_by_somebody_alive() -> None:
    bench = GroupBench(consumer_id="c-1")
    while bench.membership.state is not MembershipState.REFUSED:
        bench.pass_ms(300)
        bench.answer_metadata()
        if bench.membership.state is MembershipState.REGISTERING:
            bench.end(ConsumerIdTakenError("c-1 is alive"))
    assert SESSION_TIMEOUT_MS <= bench.now_ms <= SESSION_TIMEOUT_MS + 3_000
    with pytest.raises(ConsumerIdTakenError):
        bench.membership.raise_errors(bench.now_ms)


def test_a_consumer_id_may_be_taken_for_a_session_timeout_of_each_coordinator_in_turn() -> None:
    bench = GroupBench(consumer_id="c-1")
    for _ in range(3):
        until_ms = bench.now_ms + SESSION_TIMEOUT_MS * 2 / 3
        while bench.now_ms < until_ms:
            bench.pass_ms(300)
            bench.answer_metadata()
            if bench.membership.state is MembershipState.REGISTERING:
                bench.end(ConsumerIdTakenError("c-1 is alive"))
        while bench.membership.state is not MembershipState.REGISTERING:
            assert bench.membership.state is MembershipState.SEEKING
            bench.pass_ms(300)
            bench.answer_metadata()
        bench.end(BROKEN)
    assert bench.now_ms > SESSION_TIMEOUT_MS
    assert bench.membership.state is not MembershipState.REFUSED


def test_a_consumer_id_of_a_predecessor_that_died_is_had_in_the_end() -> None:
    bench = GroupBench(consumer_id="c-1")
    bench.answer_metadata()
    bench.end(ConsumerIdTakenError("c-1 is alive"))
    bench.register()
    bench.membership.raise_errors(bench.now_ms)
    assert bench.membership.state is MembershipState.MEMBER


def test_a_group_without_a_coordinator_is_said_after_the_budget() -> None:
    bench = GroupBench(unavailable_timeout_ms=5_000)
    bench.poll()
    bench.membership.raise_errors(bench.now_ms)
    bench.pass_ms(5_000)
    with pytest.raises(CoordinatorUnavailableError, match="group readers"):
        bench.membership.raise_errors(bench.now_ms)


def test_a_group_of_which_no_broker_tells_is_no_matter_of_its_coordinator() -> None:
    """It said that the brokers knew of none, where none of them had answered."""
    bench = GroupBench(unavailable_timeout_ms=5_000)
    bench.poll()
    unreachable = AddressUnreachableError("boot:9 cannot be reached: nobody listens", address="boot:9")
    while bench.now_ms < 7_000:
        bench.pass_ms(100)
        while bench.asked:
            bench.core.completed(bench.asked.pop(), unreachable, bench.now_ms)
    with pytest.raises(BrokersUnavailableError, match=r"boot:9 .*nobody listens"):
        bench.membership.raise_errors(bench.now_ms)


# -- answering -----------------------------------------------------------------------------------------------


def test_answers_repeat_epoch_generation_and_sequence_of_their_order() -> None:
    bench = GroupBench()
    bench.epoch = 4
    bench.register()
    bench.give(0, generation=7)
    bench.take(0, generation=7)
    bench.sequence = 41
    said = [*bench.said(), *bench.ping()]
    assert [(each.coordinator_epoch, each.generation, each.sequence) for each in said] == [
        (4, 7, 1),
        (4, 8, 2),
        (4, 1, 42),
    ]
    assert [each.WhichOneof("message") for each in said] == ["start_fetcher", "stop_fetcher", "ping"]


def test_a_ping_is_answered_at_once_while_a_stop_waits_for_the_user() -> None:
    bench = reading()
    bench.user_polls()
    bench.take(0)
    (answer,) = bench.ping()
    assert answer.WhichOneof("message") == "ping"


def test_a_ping_carries_what_the_user_is_done_with_and_only_what_moved() -> None:
    bench = reading()
    bench.user_polls(4)
    assert positions(bench.ping()[0]) == {}
    bench.user_polls(3)
    assert positions(bench.ping()[0]) == {0: 4}
    assert positions(bench.ping()[0]) == {}


def test_without_auto_commit_no_position_is_told() -> None:
    bench = reading(auto_commit=False)
    bench.user_polls(4)
    bench.user_polls(4)
    bench.take(0)
    bench.user_polls()
    (answer,) = bench.said()
    assert answer.WhichOneof("message") == "stop_fetcher"
    assert positions(answer) == {}


def test_positions_that_pings_would_bring_too_late_are_committed_in_between() -> None:
    bench = reading(commit_interval_ms=1_000)
    bench.user_polls(4)
    bench.user_polls(1)
    bench.pass_ms(1_000)
    bench.pass_ms(1_000)
    (commit,) = bench.commits
    (offset,) = commit.request.offsets  # type: ignore[attr-defined]
    assert (offset.partition, offset.offset, offset.generation) == (0, 4, 1)
    assert commit.request.member_id == "m-1"  # type: ignore[attr-defined]
    bench.core.completed(commit, BROKEN, bench.now_ms)
    assert positions(bench.ping()[0]) == {0: 4}


def committing() -> GroupBench:
    """A member of which a commit of offset 4 is under way."""
    bench = reading(commit_interval_ms=1_000)
    bench.user_polls(4)
    bench.user_polls(0)
    bench.pass_ms(1_000)
    bench.pass_ms(1_000)
    assert len(bench.commits) == 1
    return bench


@pytest.mark.parametrize("is_closed", [False, True])
def test_final_positions_are_told_although_a_commit_of_them_is_under_way(is_closed: bool) -> None:
    """It may be refused, because it comes after the goodbye or the answer. What the user was done with was
    read again then."""
    bench = committing()
    if is_closed:
        bench.core.leave(bench.now_ms)
    else:
        bench.take(0)
        bench.user_polls(0)
    (answer,) = bench.said()
    assert positions(answer) == {0: 4}


def test_a_position_that_was_committed_in_between_is_not_told_again() -> None:
    bench = committing()
    (commit,) = bench.commits
    result = OffsetCommitResult(topic=TOPIC, partition=0)
    bench.core.completed(commit, CommitOffsetsResponse(offsets=[result]), bench.now_ms)
    assert positions(bench.ping()[0]) == {}


def test_an_order_of_a_lower_coordinator_epoch_is_not_obeyed() -> None:
    bench = GroupBench()
    bench.epoch = 5
    bench.register()
    bench.give(0)
    bench.said()
    bench.epoch = 4
    bench.take(0)
    assert bench.ownership.assignment == parts(0)
    assert bench.stream in bench.core.cancelled
    bench.pass_ms(600)
    bench.answer_metadata(with_coordinator(2))
    assert (bench.stream.address, bench.registration.coordinator_epoch) == ("co2:2", 5)


def test_an_order_before_the_registration_was_answered_ends_the_stream() -> None:
    bench = GroupBench()
    bench.answer_metadata()
    bench.take(0)
    assert bench.stream in bench.core.cancelled
    assert bench.membership.state is MembershipState.SEEKING


# -- coming back ---------------------------------------------------------------------------------------------


def test_what_was_given_again_while_the_stream_was_broken_is_not_read_on() -> None:
    bench = GroupBench().register()
    bench.give(0)
    bench.end(BROKEN)
    bench.register(*owned(0, generation=2))
    assert bench.ownership.owned == {}


def test_a_broken_stream_is_replaced_with_the_member_id_and_what_is_owned() -> None:
    bench = reading()
    bench.end(BROKEN)
    bench.pass_ms(600)
    bench.answer_metadata(with_coordinator(2))
    said = bench.registration
    assert (said.registration.member_id, said.registration.consumer_id) == ("m-1", "c-1")
    assert list(said.registration.owned) == owned(0)
    assert said.coordinator_epoch == 1
    bench.register(*owned(0))
    assert bench.tell_user() == []
    assert len(bench.user_polls()) == 10


def test_a_consumer_without_a_coordinator_reads_on_for_a_third_of_its_session_timeout() -> None:
    bench = reading()
    assert len(bench.user_polls(4)) == 4
    bench.end(BROKEN)
    bench.pass_ms(SESSION_TIMEOUT_MS / 3 - 100)
    assert len(bench.user_polls(4)) == 4
    bench.pass_ms(200)
    assert bench.user_polls(4) == []
    bench.register(*owned(0))
    assert [record.offset for record in bench.user_polls()] == [8, 9]


def test_an_iteration_ends_when_nothing_may_be_handed_out_any_more() -> None:
    bench = reading()
    bench.ownership.came_back()
    chunk = bench.consumer.next_chunk()
    assert chunk is not None
    bench.in_delivery.begin(chunk)
    bench.ownership.took(chunk.partition)
    records = bench.in_delivery.iterate()
    assert next(records).offset == 0
    bench.end(BROKEN)
    bench.pass_ms(SESSION_TIMEOUT_MS / 3 + 100)
    assert list(records) == []
    bench.register(*owned(0))
    assert next(iter(bench.user_polls())).offset == 1


def test_a_coordinator_that_is_silent_for_a_session_timeout_is_left_for_another() -> None:
    bench = reading()
    bench.pass_ms(SESSION_TIMEOUT_MS)
    assert bench.membership.state is MembershipState.MEMBER
    bench.pass_ms(1)
    assert bench.stream in bench.core.cancelled
    assert bench.user_polls() == []
    bench.pass_ms(600)
    bench.answer_metadata(with_coordinator(2))
    assert bench.stream.address == "co2:2"


def test_a_process_that_stood_still_obeys_nothing_that_waited_for_it_meanwhile() -> None:
    bench = reading()
    bench.now_ms += SESSION_TIMEOUT_MS / 3 + 1
    assert bench.core.take(bench.now_ms) is None
    bench.take(0)
    assert list(bench.stream.outbox) == []
    assert bench.stream in bench.core.cancelled
    assert bench.user_polls() == []
    bench.register(*owned(0))
    assert len(bench.user_polls()) == 10


def test_a_process_that_stood_still_while_it_registered_is_no_second_member() -> None:
    """The first one, of which nobody knew, had partitions that nobody read, until it was declared dead."""
    bench = GroupBench()
    bench.answer_metadata()
    first = bench.stream
    bench.now_ms += SESSION_TIMEOUT_MS / 2
    bench.poll()
    answer = ConsumerRegistered(member_id="m-1", consumer_id="c-1")
    waited = RegisterConsumerResponse(coordinator_epoch=1, registered=answer)
    bench.core.completed(first, waited, bench.now_ms)
    order = StartFetcher(streams=starts(0))
    waited = RegisterConsumerResponse(coordinator_epoch=1, sequence=1, start_fetcher=order)
    bench.core.completed(first, waited, bench.now_ms)
    bench.poll()
    assert bench.ownership.assignment == ()
    assert bench.stream is not first
    assert bench.registration.registration.member_id == "m-1"
    bench.register()
    bench.give(0)
    assert bench.ownership.assignment == parts(0)


def test_what_the_coordinator_does_not_confirm_is_lost() -> None:
    bench = GroupBench(tells_revoked=True).register()
    bench.give(0, 1, 2)
    bench.tell_user()
    bench.end(BROKEN)
    bench.register(*owned(1))
    assert changes(bench.tell_user()) == [(OwnershipChange.LOST, [0, 2])]
    assert bench.ownership.assignment == parts(1)


def test_a_member_that_was_declared_dead_begins_anew() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.end(UnknownMemberError("m-1 is no member"))
    assert bench.ownership.assignment == ()
    bench.register(member_id="m-2")
    assert bench.registration.registration.member_id == ""
    assert list(bench.registration.registration.owned) == []
    bench.give(0, generation=9)
    assert changes(bench.tell_user()) == [(OwnershipChange.LOST, [0]), (OwnershipChange.ASSIGNED, [0])]


def test_a_member_that_is_told_that_its_session_is_over_hands_out_nothing_before_it_is_back() -> None:
    bench = reading()
    assert len(bench.user_polls(2)) == 2
    bench.end(SessionTimedOutError("c-1 is declared dead"))
    assert bench.user_polls() == [], "others may own by now what it owned"
    bench.register(*owned(0))
    assert bench.user_polls(1)[0].offset == 2


def test_a_member_whose_token_has_expired_comes_back_with_the_next_one() -> None:
    bench = reading()
    bench.end(NotAuthenticatedError("the token has expired meanwhile"))
    bench.register(*owned(0))
    assert bench.user_polls(1)[0].offset == 0


def test_a_member_whose_next_token_is_refused_too_says_so() -> None:
    bench = reading()
    bench.end(NotAuthenticatedError("the token has expired meanwhile"))
    bench.pass_ms(600)
    bench.answer_metadata()
    bench.end(NotAuthenticatedError("it expired at noon"))
    with pytest.raises(NotAuthenticatedError, match="it expired at noon"):
        bench.membership.raise_errors(bench.now_ms)


def test_a_stale_coordinator_is_left_and_the_member_keeps_its_id() -> None:
    bench = reading()
    bench.end(BROKEN)
    bench.pass_ms(600)
    bench.answer_metadata()
    bench.end(StaleCoordinatorEpochError("epoch 1, not 2"))
    bench.pass_ms(600)
    bench.answer_metadata(with_coordinator(2))
    assert (bench.stream.address, bench.registration.registration.member_id) == ("co2:2", "m-1")


def test_an_instance_whose_place_was_taken_gives_up() -> None:
    bench = reading(instance_id="i-1")
    bench.end(FencedInstanceError("i-1 lives elsewhere"))
    with pytest.raises(FencedInstanceError):
        bench.membership.raise_errors(bench.now_ms)
    assert bench.ownership.assignment == ()


def test_an_answer_out_of_turn_is_a_broken_stream_to_a_member() -> None:
    bench = reading()
    bench.end(AnswerOutOfTurnError("sequence 9 is not open"))
    bench.register(*owned(0))
    bench.membership.raise_errors(bench.now_ms)
    assert bench.ownership.assignment == parts(0)


def test_orders_of_a_stream_that_broke_are_void() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.take(0)
    bench.end(BROKEN)
    bench.register(*owned(0))
    assert bench.said() == []
    assert [record.offset for record in bench.user_polls()] == [4, 5, 6, 7, 8, 9]


def test_positions_that_may_not_have_arrived_are_told_again() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.user_polls(1)
    bench.ping()
    bench.end(BROKEN)
    bench.register(*owned(0))
    assert positions(bench.ping()[0]) == {0: 4}


# -- leaving -------------------------------------------------------------------------------------------------


def test_a_goodbye_carries_the_final_positions_and_is_done_when_the_stream_ends() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.ownership.came_back()
    bench.membership.leave(bench.now_ms)
    (goodbye,) = bench.said()
    assert goodbye.WhichOneof("message") == "goodbye"
    assert positions(goodbye) == {0: 4}
    bench.end()
    assert bench.membership.state is MembershipState.OUTSIDE


def test_nothing_is_answered_after_the_goodbye() -> None:
    bench = reading()
    bench.membership.leave(bench.now_ms)
    bench.said()
    assert bench.ping() == []


def test_a_goodbye_that_a_failover_interrupts_is_said_to_the_next_coordinator() -> None:
    bench = reading()
    bench.user_polls(4)
    bench.ownership.came_back()
    bench.membership.leave(bench.now_ms)
    bench.end(BROKEN)
    bench.register(*owned(0))
    (goodbye,) = bench.said()
    assert positions(goodbye) == {0: 4}
    bench.end()
    assert bench.membership.state is MembershipState.OUTSIDE


def test_a_goodbye_without_positions_is_not_said_twice() -> None:
    bench = reading(auto_commit=False)
    bench.membership.leave(bench.now_ms)
    bench.end(BROKEN)
    assert bench.membership.state is MembershipState.OUTSIDE


def test_leaving_ends_though_no_coordinator_answers() -> None:
    bench = reading()
    bench.end(BROKEN)
    bench.membership.leave(bench.now_ms)
    bench.pass_s(6)
    assert bench.membership.state is MembershipState.OUTSIDE


def test_a_consumer_that_never_registered_has_nothing_to_say() -> None:
    bench = GroupBench()
    bench.poll()
    bench.membership.leave(bench.now_ms)
    assert bench.membership.state is MembershipState.OUTSIDE
