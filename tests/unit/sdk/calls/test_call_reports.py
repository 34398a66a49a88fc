"""What the callbacks of a client are told of its calls: failures, each kind once a second, and figures."""

import pytest
from hightide import BrokerStatistics, CallFailure, ProducerStatistics
from hightide.calls.call import Call, MessageCall, Method
from hightide.calls.call_reports import CallReports, ClientCallbacks
from hightide.errors import AddressUnreachableError, InvalidArgumentError, RequestTimeoutError
from hightide.v1.broker_service_pb2 import GetMetadataRequest, GetMetadataResponse

REFUSED = AddressUnreachableError("nobody listens", address="b1:1")


def call(address: str = "b1:1") -> Call[GetMetadataResponse]:
    return MessageCall(address, Method.GET_METADATA, 100, GetMetadataRequest(), GetMetadataResponse)


class Told:
    """The reports of a client that has acknowledged 7 records, and what its callbacks were told."""

    def __init__(self, *, with_statistics: bool = True) -> None:
        self.failures: list[CallFailure] = []
        self.figures: list[ProducerStatistics] = []
        on_statistics = self.figures.append if with_statistics else None
        callbacks = ClientCallbacks(self.failures.append, on_statistics, 1_000)
        reports = callbacks.reports(lambda: ProducerStatistics(7, 700, 0, 1, 0, 0, 0, 0.0))
        assert reports is not None
        self.reports: CallReports = reports

    def fail(self, at_ms: float, error: AddressUnreachableError | RequestTimeoutError = REFUSED) -> None:
        failing = call(error.address or "")
        self.reports.began(failing, at_ms)
        self.reports.ended(failing, error, at_ms)

    def turn(self, at_ms: float) -> None:
        for callback in self.reports.due(at_ms):
            callback()


def test_a_failure_is_told_at_once_and_those_alike_once_a_second_with_their_number() -> None:
    told = Told(with_statistics=False)
    told.fail(0)
    told.turn(0)
    assert told.failures == [CallFailure(REFUSED, "GetMetadata", "b1:1", 1)]
    wakes = [told.reports.wake_at_ms]
    for at_ms in (10, 20, 30):
        told.fail(at_ms)
        told.turn(at_ms)
    assert len(told.failures) == 1
    wakes.append(told.reports.wake_at_ms)
    assert wakes == [None, 1_000]
    told.turn(1_000)
    assert [failure.count for failure in told.failures] == [1, 3]
    told.turn(9_000)
    assert len(told.failures) == 2


def test_other_addresses_and_other_errors_are_told_by_themselves() -> None:
    told = Told()
    told.fail(0)
    told.fail(0, AddressUnreachableError("nobody listens", address="b2:1"))
    told.fail(0, RequestTimeoutError("no answer", address="b1:1"))
    told.turn(0)
    assert [(each.address, type(each.error)) for each in told.failures] == [
        ("b1:1", AddressUnreachableError),
        ("b2:1", AddressUnreachableError),
        ("b1:1", RequestTimeoutError),
    ]


def test_a_call_that_the_client_gave_up_is_no_failure() -> None:
    told = Told()
    dropped = call()
    told.reports.began(dropped, 0)
    told.reports.given_up(dropped)
    told.reports.ended(dropped, REFUSED, 5)
    told.turn(5)
    assert told.failures == []


def test_figures_come_every_interval_with_the_calls_to_each_address() -> None:
    told = Told()
    told.turn(0)
    assert (told.figures, told.reports.wake_at_ms) == ([], 1_000)
    for took_ms in (10, 30):
        answered = call()
        told.reports.began(answered, 0)
        told.reports.ended(answered, GetMetadataResponse(), took_ms)
    told.reports.began(call(), 500)
    told.turn(1_000)
    told.turn(1_500)
    told.turn(2_000)
    assert [each.acknowledged_records for each in told.figures] == [7, 7]
    assert [each.brokers["b1:1"] for each in told.figures] == [
        BrokerStatistics(calls=2, failures=0, in_flight=1, call_ms_mean=20, call_ms_max=30),
        BrokerStatistics(calls=2, failures=0, in_flight=1, call_ms_mean=0, call_ms_max=0),
    ]


def test_addresses_that_come_and_go_for_ever_are_not_remembered_for_ever() -> None:
    told = Told(with_statistics=False)
    for number in range(5_000):
        told.fail(0, AddressUnreachableError("nobody listens", address=f"b{number}:1"))
        told.turn(number)
    assert len(told.reports._failures) <= 1_000
    assert len(told.failures) == 5_000


def test_without_a_callback_nothing_is_noted() -> None:
    assert ClientCallbacks().reports(lambda: ProducerStatistics(0, 0, 0, 0, 0, 0, 0, 0.0)) is None


async def coroutine(_: object) -> None:
    """Would never be awaited."""


@pytest.mark.parametrize(
    "wrong", [{"on_error": coroutine}, {"on_statistics": 5}, {"statistics_interval_ms": 5}]
)
def test_callbacks_that_could_not_be_called_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(InvalidArgumentError, match=next(iter(wrong))):
        ClientCallbacks(**wrong)  # type: ignore[arg-type]
