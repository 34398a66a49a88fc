"""Which address of a process a caller is told."""

import contextvars

import pytest
from hightide_runtime.addresses import HostPort
from hightide_runtime.serving.listeners import CURRENT, Listener, address_told, current_listener
from hightide_runtime.znodes.cluster_znodes import ControllerZnode

BOTH = ControllerZnode(1, "inside", 9090, 7, "outside", 19090)
INSIDE_ONLY = ControllerZnode(1, "inside", 9090, 7)


def test_a_caller_is_told_the_address_of_the_side_that_it_comes_from() -> None:
    assert address_told(BOTH, Listener.INTERNAL) == HostPort("inside", 9090)
    assert address_told(BOTH, Listener.EXTERNAL) == HostPort("outside", 19090)


def test_a_process_without_an_external_address_is_told_by_its_internal_one() -> None:
    assert address_told(INSIDE_ONLY, Listener.EXTERNAL) == HostPort("inside", 9090)


def test_without_a_listener_named_it_is_that_of_the_call_in_hand() -> None:
    def outside() -> HostPort:
        CURRENT.set(Listener.EXTERNAL)
        assert current_listener() is Listener.EXTERNAL
        return address_told(BOTH)

    assert contextvars.copy_context().run(outside) == HostPort("outside", 19090)
    assert address_told(BOTH) == HostPort("inside", 9090)


@pytest.mark.parametrize("port", ["", ',"external_port":0', ',"external_port":"9"', ',"external_port":65536'])
def test_a_znode_whose_external_port_is_of_no_use_counts_as_one_without_an_external_address(
    port: str,
) -> None:
    content = '{"controller_id":1,"host":"h","port":1,"controller_epoch":1,"external_host":"o"' + port + "}"
    found = ControllerZnode.decode(content.encode())
    assert address_told(found, Listener.EXTERNAL) == HostPort("h", 1)
    assert (found.external_host, found.external_port) == ("", 0)
