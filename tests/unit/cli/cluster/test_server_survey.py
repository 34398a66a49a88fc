"""Who is asked where everybody is: brokers, controllers, coordinators, each once."""

from dataclasses import replace

from hightide import BrokerDescription, ClusterDescription, ServerAddress
from hightide_cli.cluster.server_survey import servers_of


def described(
    controllers: tuple[ServerAddress, ...] = (), coordinators: tuple[ServerAddress, ...] = ()
) -> ClusterDescription:
    brokers = (
        BrokerDescription(2, "b2:1", alive=True, broker_epoch=1, leader_count=0, replica_count=0),
        BrokerDescription(1, "b1:1", alive=True, broker_epoch=1, leader_count=0, replica_count=0),
        BrokerDescription(3, None, alive=False, broker_epoch=0, leader_count=0, replica_count=0),
    )
    return ClusterDescription(
        *("c", 7, "c7:1", 3, brokers, 0, 0, 0, 0, 0), controllers=controllers, coordinators=coordinators
    )


def test_standbys_are_asked_beside_the_active_ones_and_nobody_twice() -> None:
    told = described(
        (ServerAddress(7, "c7:1"), ServerAddress(6, "c6:1")),
        (ServerAddress(1, "k1:1"), ServerAddress(2, "k2:1")),
    )
    assert servers_of(told, ("k2:1", None, "k2:1")) == [
        ("broker", 1, "b1:1"),
        ("broker", 2, "b2:1"),
        ("controller", 6, "c6:1"),
        ("controller", 7, "c7:1"),
        ("coordinator", 1, "k1:1"),
        ("coordinator", 2, "k2:1"),
    ]


def test_where_the_controller_does_not_tell_who_stands_by_the_active_ones_are_asked() -> None:
    assert servers_of(described(), ("k2:1",))[2:] == [
        ("controller", 7, "c7:1"),
        ("coordinator", None, "k2:1"),
    ]


def test_an_address_that_something_else_is_known_at_is_not_asked_as_a_standby() -> None:
    told = described((ServerAddress(9, "b1:1"),))
    assert ("broker", 1, "b1:1") in servers_of(told, ())
    assert "controller" not in {kind for kind, _, address in servers_of(told, ()) if address == "b1:1"}


def test_a_broker_that_answers_in_the_place_of_a_controller_is_asked_as_the_broker_that_it_is() -> None:
    told = replace(described(), controller_id=1, controller_address="b1:1", coordination="leaders")
    assert servers_of(told, ()) == [("broker", 1, "b1:1"), ("broker", 2, "b2:1")]
