"""What an admin client asks of servers: who they are, what room they have, and to step aside."""

from typing import Any

import pytest
from hightide.calls.call import Call
from hightide.errors import (
    AddressUnreachableError,
    HightideError,
    InvalidArgumentError,
    RequestTimeoutError,
    StaleBrokerEpochError,
    StaleControllerEpochError,
    UnknownBrokerError,
)
from hightide.servers import (
    LogDirectory,
    ResignedController,
    ServerDescription,
    ServerSetting,
    SettingOrigin,
)
from hightide.v1 import broker_service_pb2 as broker_pb2
from hightide.v1 import controller_service_pb2 as pb2
from hightide.v1 import coordinator_service_pb2 as coordinator_pb2
from hightide.v1 import server_service_pb2 as server_pb2
from hightide.v1.errors_pb2 import ErrorCode
from hightide.v1.metadata_pb2 import Endpoint
from hightide.v1.server_service_pb2 import DescribeServerResponse
from unit.sdk.operation_world import World


def lost(call: Call[Any]) -> HightideError:
    return AddressUnreachableError("the connection broke", address=call.address)


def cluster(epoch: int, controller_id: int = 7, **broker: Any) -> pb2.DescribeClusterResponse:
    return pb2.DescribeClusterResponse(
        controller=Endpoint(id=controller_id, host=f"c{controller_id}", port=controller_id),
        controller_epoch=epoch,
        brokers=[pb2.BrokerDescription(endpoint=Endpoint(id=1, host="b1", port=1), **broker)],
    )


# -- who they are --------------------------------------------------------------------------------------------


def test_a_server_is_asked_where_it_was_said_and_the_shorter_round_trip_counts() -> None:
    trips = iter([(40, 1_000), (4, 1_005)])

    def answer(call: Call[Any]) -> DescribeServerResponse:
        took_ms, clock_ms = next(trips)
        world.now_ms += took_ms
        return DescribeServerResponse(
            service="broker",
            instance="3",
            version="0.1.0",
            started_at_ms=17,
            clock_ms=clock_ms,
            advertised="b3:3",
            external_advertised="localhost:3",
            zookeeper_session_timeout_ms=6_000,
            settings=[
                server_pb2.ServerSetting(
                    name="log-level",
                    value="DEBUG",
                    default_value="INFO",
                    origin=server_pb2.SERVER_SETTING_ORIGIN_ENVIRONMENT,
                    variable="HIGHTIDE_BROKER_LOG_LEVEL",
                    meaning="how much",
                ),
                # Of a version that knows more than this one.
                server_pb2.ServerSetting(name="new", value="1", origin=17),  # type: ignore[arg-type]
            ],
        )

    world = World(DESCRIBE_SERVER=answer)
    described = world.run(world.operations.describe_server("other:5"))
    assert described == ServerDescription(
        *("broker", "3", "0.1.0", 17, 1_005, "b3:3", "localhost:3", 6_000, 4.0),
        settings=(
            ServerSetting(
                *("log-level", "DEBUG", "INFO", SettingOrigin.ENVIRONMENT),
                *("HIGHTIDE_BROKER_LOG_LEVEL", "how much"),
            ),
            ServerSetting("new", "1", "", SettingOrigin.UNKNOWN, "", ""),
        ),
    )
    assert world.asked == [("DESCRIBE_SERVER", "other:5")] * 2


def test_a_server_that_does_not_answer_is_not_waited_for() -> None:
    world = World(DESCRIBE_SERVER=lost)
    with pytest.raises(AddressUnreachableError, match="other:5"):
        world.run(world.operations.describe_server("other:5"))
    assert len(world.asked) == 1
    with pytest.raises(InvalidArgumentError, match="host:port"):
        world.run(world.operations.describe_server("other"))


# -- what room they have -------------------------------------------------------------------------------------


def test_log_directories_come_from_every_broker_and_one_that_is_silent_says_so() -> None:
    requests: list[Any] = []

    def answer(call: Any) -> Any:
        requests.append(call.request)
        if call.address == "b2:2":
            return lost(call)
        return broker_pb2.DescribeReplicasResponse(
            log_directories=[
                broker_pb2.LogDirectoryDescription(path="/a", total_bytes=100, free_bytes=40),
                broker_pb2.LogDirectoryDescription(path="/b", error_code=ErrorCode.ERROR_CODE_STORAGE_FAILED),
            ]
        )

    world = World(DESCRIBE_REPLICAS=answer)
    listed = world.run(world.operations.describe_log_directories())
    assert listed[:2] == [LogDirectory(1, "/a", 100, 40, False), LogDirectory(1, "/b", 0, 0, True)]
    assert [(each.broker_id, each.path) for each in listed[2:]] == [(2, ""), (3, "/a"), (3, "/b")]
    assert isinstance(listed[2].error, AddressUnreachableError)
    assert all(request.log_directories_only for request in requests)


def test_where_no_broker_tells_of_its_log_directories_it_is_an_error() -> None:
    world = World(DESCRIBE_REPLICAS=lost)
    with pytest.raises(AddressUnreachableError):
        world.run(world.operations.describe_log_directories())


# -- stepping aside ------------------------------------------------------------------------------------------


def test_the_controller_that_reigns_is_named_by_its_epoch() -> None:
    named: list[int] = []

    def resign(call: Any) -> pb2.ResignControllerResponse:
        named.append(call.request.controller_epoch)
        return pb2.ResignControllerResponse(controller_id=7, controller_epoch=4)

    world = World(DESCRIBE_CLUSTER=lambda _: cluster(4), RESIGN_CONTROLLER=resign)
    assert world.run(world.operations.resign_controller(0)) == ResignedController(7, 4)
    assert named == [4]


def test_where_the_answer_was_lost_the_next_controller_is_left_alone() -> None:
    epochs = iter([4, 5])
    world = World(
        DESCRIBE_CLUSTER=lambda _: cluster(next(epochs)),
        RESIGN_CONTROLLER=lost,
    )
    assert world.run(world.operations.resign_controller(0)) == ResignedController(7, 4)
    assert [method for method, _ in world.asked].count("RESIGN_CONTROLLER") == 1


def test_where_the_order_was_lost_it_is_given_again() -> None:
    resigned = pb2.ResignControllerResponse(controller_id=7, controller_epoch=4)
    attempts = iter([AddressUnreachableError("the connection broke"), resigned])
    world = World(DESCRIBE_CLUSTER=lambda _: cluster(4), RESIGN_CONTROLLER=lambda _: next(attempts))
    assert world.run(world.operations.resign_controller(4)) == ResignedController(7, 4)


def test_whichever_reigns_is_meant_unless_an_epoch_is_given() -> None:
    epochs = iter([4, 5, 5])

    def resign(call: Any) -> Any:
        if call.request.controller_epoch == 4:
            return StaleControllerEpochError("controller 8 reigns in epoch 5")
        return pb2.ResignControllerResponse(controller_id=8, controller_epoch=5)

    world = World(DESCRIBE_CLUSTER=lambda _: cluster(next(epochs), 8), RESIGN_CONTROLLER=resign)
    assert world.run(world.operations.resign_controller(0)) == ResignedController(8, 5)
    with pytest.raises(StaleControllerEpochError):
        world.run(world.operations.resign_controller(4))
    with pytest.raises(InvalidArgumentError, match="-1"):
        world.run(world.operations.resign_controller(-1))


def test_a_coordinator_is_asked_once_to_give_up_its_shards() -> None:
    asked: list[list[int]] = []

    def resign(call: Any) -> coordinator_pb2.ResignCoordinatorResponse:
        asked.append([*call.request.shards])
        given_up = [coordinator_pb2.ResignedShard(shard=shard, coordinator_epoch=3) for shard in (0, 2)]
        return coordinator_pb2.ResignCoordinatorResponse(coordinator_id=5, shards=given_up)

    def described(_: Any) -> pb2.DescribeClusterResponse:
        answer = cluster(4)
        answer.coordinators.append(Endpoint(id=5, host="o5", port=1))
        return answer

    world = World(DESCRIBE_CLUSTER=described, RESIGN_COORDINATOR=resign)
    assert world.run(world.operations.resign_coordinator(5, [0, 2, 0])) == (0, 2)
    assert asked == [[0, 2]]
    assert world.asked[-1] == ("RESIGN_COORDINATOR", "o5:1")
    with pytest.raises(InvalidArgumentError, match="there are: 5"):
        world.run(world.operations.resign_coordinator(6, ()))

    for beyond in (2**31, -1):
        with pytest.raises(InvalidArgumentError, match=f"{beyond} is no shard"):
            world.run(world.operations.resign_coordinator(5, [0, beyond]))

    lossy = World(DESCRIBE_CLUSTER=described, RESIGN_COORDINATOR=lost)
    with pytest.raises(AddressUnreachableError):
        lossy.run(lossy.operations.resign_coordinator(5, ()))
    assert [method for method, _ in lossy.asked].count("RESIGN_COORDINATOR") == 1


def test_a_broker_is_drained_until_it_leads_nothing() -> None:
    remaining = iter([3, 1, 0])
    requests: list[Any] = []

    def shut_down(call: Any) -> pb2.ControlledShutdownResponse:
        requests.append(call.request)
        return pb2.ControlledShutdownResponse(remaining_leader_count=next(remaining))

    world = World(
        DESCRIBE_CLUSTER=lambda _: cluster(4, alive=True, broker_epoch=99), CONTROLLED_SHUTDOWN=shut_down
    )
    assert world.run(world.operations.drain_broker(1)) == 0
    assert requests == [pb2.ControlledShutdownRequest(broker_id=1, broker_epoch=99)] * 3


def test_what_a_broker_leads_when_the_time_is_over_is_told() -> None:
    world = World(
        DESCRIBE_CLUSTER=lambda _: cluster(4, alive=True, broker_epoch=99),
        CONTROLLED_SHUTDOWN=lambda _: pb2.ControlledShutdownResponse(remaining_leader_count=2),
    )
    assert world.run(world.operations.drain_broker(1)) == 2
    assert 4_000 < world.now_ms <= 5_000


def test_a_drain_whose_last_call_is_cut_short_tells_what_the_one_before_was_told() -> None:
    answers = iter([pb2.ControlledShutdownResponse(remaining_leader_count=2)])

    def shut_down(call: Any) -> Any:
        answer = next(answers, None)
        if answer is not None:
            world.now_ms = 4_700
            return answer
        world.now_ms += call.timeout_ms
        return RequestTimeoutError("did not answer CONTROLLED_SHUTDOWN within 50 ms")

    world = World(
        DESCRIBE_CLUSTER=lambda _: cluster(4, alive=True, broker_epoch=99), CONTROLLED_SHUTDOWN=shut_down
    )
    assert world.run(world.operations.drain_broker(1)) == 2
    with pytest.raises(RequestTimeoutError):
        world.run(world.operations.drain_broker(1))


def test_a_broker_that_is_not_alive_or_started_anew_is_not_drained() -> None:
    dead = World(DESCRIBE_CLUSTER=lambda _: cluster(4, alive=False))
    with pytest.raises(UnknownBrokerError, match="alive are: none"):
        dead.run(dead.operations.drain_broker(1))
    anew = World(
        DESCRIBE_CLUSTER=lambda _: cluster(4, alive=True, broker_epoch=99),
        CONTROLLED_SHUTDOWN=lambda _: StaleBrokerEpochError("another life"),
    )
    with pytest.raises(StaleBrokerEpochError):
        anew.run(anew.operations.drain_broker(1))
