"""How long commands wait for the cluster."""

import pytest
from hightide_cli.command_line.connections import ORDER_TIMEOUT_MS
from hightide_controller.settings import ControllerSettings


@pytest.mark.parametrize("limit", ["create_topic_timeout_ms", "request_timeout_ms"])
def test_a_command_waits_longer_for_an_order_than_the_controller_works_at_it(limit: str) -> None:
    """`topic create` gave up in the moment in which the controller said how far it had come."""
    assert ControllerSettings.model_fields[limit].default + 1_000 <= ORDER_TIMEOUT_MS
