import grpc
import pytest
from google.rpc import error_details_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide_runtime.errors import CATALOGUE, DOMAIN, ServiceError, reason_of


def test_every_error_code_has_a_grpc_status_and_no_other() -> None:
    assert set(CATALOGUE) == set(ErrorCode.values())


@pytest.mark.parametrize("code", ErrorCode.values())
def test_no_error_is_sent_as_ok_or_as_unknown(code: int) -> None:
    assert CATALOGUE[code] not in (grpc.StatusCode.OK, grpc.StatusCode.UNKNOWN)


@pytest.mark.parametrize("code", ErrorCode.values())
def test_reasons_are_upper_snake_and_short_as_aip_193_asks(code: int) -> None:
    reason = reason_of(code)
    assert reason.replace("_", "").isalnum()
    assert reason == reason.upper()
    assert len(reason) <= 63


def test_an_error_goes_out_with_its_sentence_and_the_facts_for_programs() -> None:
    error = ServiceError(ErrorCode.ERROR_CODE_NOT_LEADER, "broker 1 does not lead t-0", {"topic": "t"})
    status = error.to_rich_status()
    info = error_details_pb2.ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (status.code, status.message) == (grpc.StatusCode.FAILED_PRECONDITION.value[0], error.message)
    assert (info.reason, info.domain, dict(info.metadata)) == ("NOT_LEADER", DOMAIN, {"topic": "t"})


def test_an_endless_message_is_cut_so_that_the_answer_fits_the_metadata_of_http2() -> None:
    error = ServiceError(ErrorCode.ERROR_CODE_INVALID_REQUEST, "x" * 100_000, {"name": "y" * 100_000})
    assert error.to_rich_status().ByteSize() < 2000
