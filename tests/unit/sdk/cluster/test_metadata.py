"""When a client asks again who leads, and which answers it believes."""

from collections import deque
from itertools import pairwise

import pytest
from hightide.calls.notice import Level, Notice
from hightide.cluster import leaders_seen
from hightide.cluster.leaders_seen import LeadersSeen
from hightide.cluster.metadata import ClusterMetadata, Leader, MetadataSeeker, final_refusal
from hightide.errors import (
    AddressUnreachableError,
    HightideError,
    NotAuthenticatedError,
    TlsFault,
    TlsHandshakeError,
    TlsRefusedError,
    TokenNotSentError,
)
from hightide.records import PartitionDescription
from unit.sdk.producer_bench import TOPIC, metadata


def test_pauses_between_questions_grow_by_one_step_an_answer() -> None:
    seeker = MetadataSeeker(ClusterMetadata(("boot:9",)))
    now_ms = 1_000.0
    pauses = []
    for _ in range(5):
        seeker.want_again(now_ms=now_ms)
        asked_ms = seeker.wake_at_ms
        assert asked_ms is not None
        call = seeker.poll(asked_ms)
        assert call is not None
        seeker.answered(call, metadata([1]), asked_ms)
        pauses.append(asked_ms - now_ms)
        now_ms = asked_ms
    assert pauses == [0, 5, 10, 20, 40]


def test_a_cluster_that_is_down_is_asked_less_and_less_often_until_a_broker_answers() -> None:
    seeker = MetadataSeeker(ClusterMetadata(("boot:9", "other:9")))
    now_ms = 1_000.0
    asked_ms: list[float] = []
    seeker.want()
    while len(asked_ms) < 14:
        seeker.want_again(now_ms=now_ms)  # whoever waits for a leader asks again and again
        now_ms = max(now_ms, seeker.wake_at_ms or now_ms)
        call = seeker.poll(now_ms)
        assert call is not None
        asked_ms.append(now_ms)
        seeker.failed(call, AddressUnreachableError("refused", address=call.address), now_ms)
    assert [later - earlier for earlier, later in pairwise(asked_ms[::2])] == [40, 80, 160, 320, 500, 500]
    assert asked_ms[::2] == asked_ms[1::2], "in a round, one address is asked right after the other"
    now_ms = seeker.wake_at_ms or now_ms
    back = seeker.poll(now_ms)
    assert back is not None
    seeker.answered(back, metadata([1]), now_ms)
    seeker.want()
    assert seeker.poll(now_ms) is not None


def test_what_one_part_of_a_client_hears_of_a_leader_all_its_parts_know() -> None:
    client = LeadersSeen()
    one, other = ClusterMetadata(("boot:9",), client), ClusterMetadata(("boot:9",), client)
    one.update(metadata({0: (1, 1)}))
    other.update(metadata({0: (2, 2)}))
    assert one.leader_of(TOPIC, 0) == Leader(2, "b2:2", 2)
    one.update(metadata({0: (1, 1)}))
    assert one.leader_of(TOPIC, 0) == Leader(2, "b2:2", 2)
    assert one.note_leader(TOPIC, 0, 3, 3)
    other.update(metadata({0: (2, 2)}))
    assert other.leader_of(TOPIC, 0) == Leader(3, "b3:3", 3)


def test_an_answer_without_news_of_a_topic_leaves_the_topic_as_it_is() -> None:
    """An answer that names 10,000 partitions took 37 ms, 25 times a second, while they got new leaders."""
    cluster = ClusterMetadata(("boot:9",))
    cluster.update(metadata({0: (1, 1)}))
    first = cluster.topics[TOPIC]
    cluster.update(metadata({0: (1, 1)}))
    assert cluster.topics[TOPIC] is first
    cluster.update(metadata({0: (2, 2)}))
    assert cluster.leader_of(TOPIC, 0) == Leader(2, "b2:2", 2)
    second = cluster.topics[TOPIC]
    cluster.forget(TOPIC)
    assert TOPIC not in cluster.topics
    cluster.update(metadata({0: (2, 2)}))
    assert cluster.topics[TOPIC] == second, "a topic that was forgotten is heard of anew"


def test_a_topic_that_was_created_again_begins_with_its_own_leader_epochs() -> None:
    cluster = ClusterMetadata(("boot:9",))
    cluster.update(metadata({0: (2, 7)}))
    cluster.update(metadata({0: (1, 0)}, topic_id=b"n" * 16))
    assert cluster.leader_of(TOPIC, 0) == Leader(1, "b1:1", 0)
    cluster.update(metadata({0: (1, 6)}))
    assert cluster.leader_of(TOPIC, 0) == Leader(2, "b2:2", 7), "what was heard under the old id still holds"


def test_no_more_topics_are_remembered_than_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(leaders_seen, "TOPICS_MAX", 2)
    seen = LeadersSeen()
    new, old = (PartitionDescription(0, leader, leader, (1, 2), (1, 2)) for leader in (2, 1))
    for topic_id in (b"1", b"2", b"3"):
        seen.take_over(topic_id, [new])
    assert [seen.newest(topic_id, old) for topic_id in (b"1", b"2", b"3")] == [old, new, new]


# -- what waiting does not help ------------------------------------------------------------------------------

TWO = ("b1:1", "b2:2")


def refused(
    address: str, fault: TlsFault = TlsFault.SERVER_CERTIFICATE, *, has_been_reached: bool = False
) -> HightideError:
    text = f"{address}: refused"
    return TlsHandshakeError(text, address=address, fault=fault, has_been_reached=has_been_reached)


def test_a_client_that_no_bootstrap_address_can_use_tls_with_does_not_wait() -> None:
    raised = final_refusal(ClusterMetadata(TWO), {address: refused(address) for address in TWO})
    assert isinstance(raised, TlsRefusedError)
    assert raised.addresses == TWO
    assert str(raised) == "b1:1: refused\nb2:2: refused"


@pytest.mark.parametrize(
    "other",
    [
        None,
        AddressUnreachableError("b2:2 cannot be reached: Connection refused", address="b2:2"),
        refused("b2:2", has_been_reached=True),
        refused("b2:2", TlsFault.FILES),
    ],
    ids=["not asked yet", "not started yet", "refuses an old client", "files half written"],
)
def test_a_client_waits_while_one_bootstrap_address_may_still_answer(other: HightideError | None) -> None:
    failures = {"b1:1": refused("b1:1")} | ({} if other is None else {"b2:2": other})
    assert final_refusal(ClusterMetadata(TWO), failures) is None


def test_an_answer_ends_what_was_refused_before() -> None:
    seeker = MetadataSeeker(ClusterMetadata(("b1:1",)))
    for outcome in (refused("b1:1"), metadata([1])):
        seeker.want()
        call = seeker.poll(seeker.wake_at_ms or 0.0)
        assert call is not None
        if isinstance(outcome, HightideError):
            seeker.failed(call, outcome, 0.0)
            assert seeker.refusal() is not None
        else:
            seeker.answered(call, outcome, 0.0)
    assert seeker.refusal() is None


def test_the_log_tells_once_of_each_time_in_which_no_broker_answers() -> None:
    """poll() of a consumer without a cluster returned nothing for a minute, without a word."""
    notices = deque[Notice]()
    seeker = MetadataSeeker(ClusterMetadata(("b1:1",)), notices, "hightide.consumer")

    def ask_at(now_ms: float, *, is_answered: bool = False) -> None:
        seeker.want()
        call = seeker.poll(now_ms)
        assert call is not None
        if is_answered:
            seeker.answered(call, metadata([1]), now_ms)
        else:
            seeker.failed(call, AddressUnreachableError("b1:1 is away", address=call.address), now_ms)

    for now_ms in (0, 4_900):
        ask_at(now_ms)
    assert not notices
    for now_ms in (5_100, 20_000):
        ask_at(now_ms)
    text = "no broker answered within 5 s: b1:1 (bootstrap) is away; trying on"
    assert list(notices) == [Notice("hightide.consumer", Level.WARNING, text)]
    ask_at(21_000, is_answered=True)
    ask_at(22_000)
    assert len(notices) == 1, "one failure is none of a broker that answered just now"
    ask_at(28_000)
    assert len(notices) == 2


@pytest.mark.parametrize("error", [NotAuthenticatedError("expired"), TokenNotSentError("plaintext")])
def test_a_client_whose_token_every_bootstrap_address_refuses_does_not_wait(error: HightideError) -> None:
    cluster = ClusterMetadata(TWO)
    assert final_refusal(cluster, {TWO[0]: refused(TWO[0]), TWO[1]: error}) is error
    assert final_refusal(cluster, dict.fromkeys(TWO, error)) is error
    assert final_refusal(cluster, {TWO[0]: error}) is None
    assert final_refusal(cluster, {TWO[0]: error, TWO[1]: AddressUnreachableError("away")}) is None
