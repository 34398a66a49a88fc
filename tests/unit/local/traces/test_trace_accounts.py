"""Where the time of a trace went: parts that follow one another and sum up, and no more than is known."""

import pytest
from hightide_local.traces.span_files import SpanRecord
from hightide_local.traces.trace_accounts import TraceAccount, account_of
from hightide_local.traces.trace_lookup import traces_of
from hightide_runtime.telemetry import span_kinds as kinds


def span(
    name: str,
    start_ms: float,
    end_ms: float,
    *,
    below: str = "root",
    service: str = "controller",
    **attributes: str,
) -> SpanRecord:
    return SpanRecord(
        "t",
        f"{name}-{start_ms}-{end_ms}" if below else "root",
        below,
        name,
        service,
        "1",
        int(start_ms * 1000),
        int(end_ms * 1000),
        attributes=dict(attributes),
    )


def account(*spans: SpanRecord) -> TraceAccount:
    (trace,) = traces_of(spans)
    found = account_of(trace)
    assert found is not None
    return found


ROOT = span(kinds.FAILOVER, 1000, 1240, below="", reason="process_died", broker_ids="2")
STEPS = (
    span(kinds.BROKER_DOWN, 1000, 1179),
    span(kinds.BROKER_WATCHER_TRIGGERED, 1179, 1180),
    span(kinds.LEADERSHIP_CHANGE, 1180, 1215),
    span(kinds.INFORM_BROKER, 1215, 1240),
    span(kinds.BECOME_LEADER, 1220, 1230, service="broker"),
    span(kinds.BECOME_LEADER, 1222, 1235, service="broker"),
)
COMMITS = (
    span(kinds.FIRST_COMMIT, 1300, 1300, service="broker"),
    span(kinds.FIRST_COMMIT, 1412, 1412, service="broker"),
)


def test_a_failover_is_told_in_one_sentence_whose_parts_sum_up() -> None:
    told = account(ROOT, *STEPS, *COMMITS)
    assert told.sentence == "unavailable 412 ms: detect 180, elect 35, fan-out 20, first commit 177"
    assert sum(part.ms or 0 for part in told.parts) == told.took_ms == 412


def test_where_brokers_were_lost_one_after_the_other_the_first_was_detected_first() -> None:
    second = (span(kinds.BROKER_DOWN, 1190, 1195), span(kinds.BROKER_WATCHER_TRIGGERED, 1195, 1196))
    told = account(ROOT, *STEPS, *second, *COMMITS)
    assert told.sentence == "unavailable 412 ms: detect 180, elect 35, fan-out 20, first commit 177"


def test_the_whole_milliseconds_sum_up_as_well() -> None:
    root = span(kinds.FAILOVER, 0, 2, below="")
    steps = (
        span(kinds.BROKER_DOWN, 0, 0.6),
        span(kinds.LEADERSHIP_CHANGE, 0.6, 1.2),
        span(kinds.BECOME_LEADER, 1.2, 1.8),
        span(kinds.FIRST_COMMIT, 2.4, 2.4),
    )
    assert account(root, *steps).sentence == "unavailable 2 ms: detect 1, elect 0, fan-out 1, first commit 0"


def test_without_a_commit_it_is_a_lower_bound() -> None:
    assert account(ROOT, *STEPS).sentence == (
        "unavailable at least 235 ms: detect 180, elect 35, fan-out 20, first commit unknown"
    )


def test_where_detection_left_no_span_it_is_unknown() -> None:
    told = account(*(each for each in STEPS[2:]), *COMMITS)
    assert (
        told.sentence == "unavailable at least 232 ms: detect unknown, elect 35, fan-out 20, first commit 177"
    )


def test_a_step_in_the_middle_that_is_missing_is_part_of_the_next() -> None:
    told = account(ROOT, *STEPS[:2], *STEPS[4:], *COMMITS)
    assert told.sentence == "unavailable 412 ms: detect 180, elect unknown, fan-out 55, first commit 177"


def test_steps_that_overlap_are_not_counted_twice() -> None:
    late = span(kinds.LEADERSHIP_CHANGE, 1180, 1350)
    told = account(ROOT, *STEPS[:2], late, *STEPS[4:], *COMMITS)
    assert told.sentence == "unavailable 412 ms: detect 180, elect 170, fan-out 0, first commit 62"


def test_multis_of_what_only_followed_are_not_waited_for_by_those_who_lead() -> None:
    told_leader = span(kinds.INFORM_BROKER, 1215, 1250)
    took_over = span(kinds.BECOME_LEADER, 1222, 1235, below=told_leader.span_id, service="broker")
    followers = span(kinds.LEADERSHIP_CHANGE, 1180, 1350)
    told = account(ROOT, *STEPS[:2], followers, told_leader, took_over, *COMMITS)
    assert told.sentence == "unavailable 412 ms: detect 180, elect 35, fan-out 20, first commit 177"


def committed(led_ms: float, waited_ms: float, end_ms: float) -> tuple[SpanRecord, SpanRecord]:
    """A new leader that was sent its first record `waited_ms` after it led."""
    connect = span(kinds.FOLLOWERS_CONNECT, led_ms, end_ms, service="broker")
    connect.attributes["waited_for_traffic_ms"] = waited_ms
    commit = span(kinds.FIRST_COMMIT, end_ms, end_ms, below=connect.span_id, service="broker")
    commit.attributes["waited_for_traffic_ms"] = waited_ms
    return connect, commit


def test_a_leader_that_is_sent_nothing_is_not_unavailable() -> None:
    told = account(ROOT, *STEPS, *committed(1235, 230, 1467))
    assert told.sentence == (
        "unavailable 237 ms: detect 180, elect 35, fan-out 20, first commit 2 (after 230 ms without records)"
    )
    assert sum(part.ms or 0 for part in told.parts) == told.took_ms == 237
    assert (told.idle_ms, told.end_us) == (230, 1_467_000)


def test_the_leader_counts_whose_records_waited_longest() -> None:
    told = account(ROOT, *STEPS, *committed(1235, 230, 1467), *committed(1230, 1, 1300))
    assert told.sentence == "unavailable 300 ms: detect 180, elect 35, fan-out 20, first commit 65"


def test_what_a_producer_waits_is_not_idle_though_the_leader_has_not_heard_of_it() -> None:
    felt = span("send flights", 1010, 1400, service="client")
    told = account(ROOT, *STEPS, *committed(1235, 230, 1467), felt)
    assert told.sentence == (
        "unavailable 402 ms: detect 180, elect 35, fan-out 20, first commit 167 (after 65 ms without records)"
    )


def test_a_leader_is_idle_only_once_all_are_led() -> None:
    told = account(ROOT, *STEPS, *committed(1230, 235, 1467))
    assert (told.idle_ms, told.took_ms) == (230, 237)


def test_an_orderly_shutdown_is_not_called_unavailable() -> None:
    root = span(kinds.FAILOVER, 1000, 1240, below="", reason="controlled_shutdown")
    assert account(root, *STEPS, *COMMITS).sentence.startswith("handed over in 412 ms: detect 180")


def test_a_producer_that_felt_it_before_the_controller_knows_when_it_began() -> None:
    felt = span("send flights", 990, 1420, service="client")
    told = account(ROOT, *STEPS, *COMMITS, felt)
    assert told.sentence == "unavailable 422 ms: detect 190, elect 35, fan-out 20, first commit 177"
    assert told.waited_ms == 430


def test_a_consumers_long_poll_does_not_move_the_beginning() -> None:
    polled = span("poll flights", 700, 1420, service="client")
    assert account(ROOT, *STEPS, *COMMITS, polled).took_ms == 412


def test_how_long_a_broker_was_silent_before_its_session_ended_is_not_known() -> None:
    silent = span(kinds.FAILOVER, 1000, 1240, below="", reason="session_ended")
    told = account(silent, *STEPS, *COMMITS)
    parts = "elect 35, fan-out 20, first commit 177"
    assert told.sentence == f"unavailable at least 232 ms: detect unknown, {parts}"
    felt = span("send flights", 200, 1420, service="client")
    told = account(silent, *STEPS, *COMMITS, felt)
    assert told.sentence == f"unavailable 1212 ms: detect 980, {parts}"


@pytest.mark.parametrize(
    ("kind", "steps", "sentence"),
    [
        (
            kinds.CONTROLLER_FAILOVER,
            (
                kinds.CONTROLLER_DETECTION,
                kinds.CONTROLLER_ELECTION,
                kinds.CONTROLLER_LOAD,
                kinds.CONTROLLER_ADOPT,
                kinds.CONTROLLER_FAN_OUT,
            ),
            "controller took over in 50 ms: detect 10, elect 10, load 10, adopt 10, fan-out 10",
        ),
        (
            kinds.COORDINATOR_FAILOVER,
            (
                kinds.COORDINATOR_DETECTION,
                kinds.COORDINATOR_ELECTION,
                kinds.COORDINATOR_LOAD,
                kinds.COORDINATOR_RECOVERY,
            ),
            "coordinator took over in 40 ms: detect 10, elect 10, load 10, recover 10",
        ),
        (
            kinds.GROUP_REBALANCE,
            (kinds.REBALANCE_STOP, kinds.REBALANCE_COMMIT, kinds.REBALANCE_OWNERS, kinds.REBALANCE_START),
            "rebalanced in 40 ms: stop 10, commit 10, owners 10, start 10",
        ),
        (
            kinds.GROUP_REBALANCE,
            (kinds.REBALANCE_OWNERS, kinds.REBALANCE_START),
            "rebalanced in 20 ms: owners 10, start 10",
        ),
        (
            kinds.REASSIGNMENT,
            (kinds.MOVE_BEGIN, kinds.MOVE_CATCH_UP, kinds.MOVE_SWITCH, kinds.MOVE_STOP),
            "moved in 40 ms: begin 10, catch up 10, switch 10, stop old replicas 10",
        ),
        (
            kinds.TOPIC_CREATION,
            (kinds.TOPIC_ZNODES, kinds.ZOOKEEPER_MULTI, kinds.INFORM_BROKER),
            "created in 30 ms: znodes 10, elect 10, fan-out 10",
        ),
        (
            kinds.TOPIC_DELETION,
            (kinds.DELETION_ZNODES, kinds.DELETION_STOP),
            "deleted in 20 ms: znodes 10, stop replicas 10",
        ),
    ],
)
def test_every_kind_has_its_sentence(kind: str, steps: tuple[str, ...], sentence: str) -> None:
    spans = [span(name, at * 10, at * 10 + 10) for at, name in enumerate(steps)]
    assert account(span(kind, 0, len(steps) * 10, below=""), *spans).sentence == sentence


def test_how_long_a_coordinator_was_gone_that_nobody_saw_go_is_not_known() -> None:
    told = account(
        span(kinds.COORDINATOR_FAILOVER, 0, 30, below="", cause="process_died"),
        span(kinds.COORDINATOR_ELECTION, 0, 10),
        span(kinds.COORDINATOR_LOAD, 10, 20),
        span(kinds.COORDINATOR_RECOVERY, 20, 30),
    )
    assert told.sentence == (
        "coordinator took over in at least 30 ms: detect unknown, elect 10, load 10, recover 10"
    )


def test_what_another_controller_carried_on_counts_from_where_the_first_one_began() -> None:
    root = span(kinds.REASSIGNMENT, 217, 250, below="")
    root.attributes["carried_on"] = True
    told = account(
        root,
        span(kinds.MOVE_BEGIN, 0, 5),
        span(kinds.MOVE_CATCH_UP, 217, 220),
        span(kinds.MOVE_SWITCH, 220, 233),
        span(kinds.MOVE_STOP, 233, 250),
    )
    assert told.sentence == "moved in 250 ms: begin 5, catch up 215, switch 13, stop old replicas 17"


def test_a_state_change_of_leaders_is_received_by_its_last_broker_and_obeyed() -> None:
    told = account(
        span(kinds.STATE_CHANGE, 0, 4, below="", service="broker"),
        span(kinds.STATE_CHANGE_RECEIVED, 6, 6, service="broker"),
        span(kinds.STATE_CHANGE_RECEIVED, 9, 9, service="broker"),
        span(kinds.STATE_CHANGE_COMPLETED, 6, 12, service="broker"),
        span(kinds.STATE_CHANGE_COMPLETED, 9, 20, service="broker"),
    )
    assert told.sentence == "state change carried out in 20 ms: receive 9, obey 11"


def test_every_kind_of_trace_is_accounted_for() -> None:
    steps = {each.name for each in kinds.SPANS}
    for kind in kinds.TRACE_KINDS:
        spans = [span(name, 0, 1) for name in steps - set(kinds.TRACE_KINDS)]
        assert account(span(kind, 0, 1, below=""), *spans).parts, kind


def test_what_has_no_steps_is_not_accounted_for() -> None:
    for alone in (
        span("send flights", 0, 5, below="", service="client"),
        span(kinds.FAILOVER, 0, 5, below=""),
    ):
        (trace,) = traces_of([alone])
        assert account_of(trace) is None
