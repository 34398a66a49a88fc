"""When a client asks again who leads."""

from hightide.cluster import Cluster, MetadataSeeker, retry_pause_ms
from unit.sdk.producer_bench import metadata


def test_pauses_between_questions_grow_by_one_step_an_answer() -> None:
    seeker = MetadataSeeker(Cluster(("boot:9",)))
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
    assert pauses == [0, *(retry_pause_ms(answers) for answers in (1, 2, 3, 4))]
