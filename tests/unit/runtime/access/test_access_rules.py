"""Each method of the contract says who may call it and at which listener; what says nothing is not served."""

import importlib
import pkgutil

import hightide.v1
import pytest
from declared_services import declare
from google.protobuf.descriptor import FieldDescriptor, MethodDescriptor
from hightide.v1 import access_pb2
from hightide_runtime.access.audit import AuditLog
from hightide_runtime.access.principals import Role
from hightide_runtime.access.rules import AccessRule, rule_of
from hightide_runtime.serving.interceptors.access import AccessInterceptor
from hightide_runtime.serving.interceptors.interceptor import Method
from hightide_runtime.serving.listeners import Listener

MODULES = [
    importlib.import_module(f"hightide.v1.{each.name}")
    for each in pkgutil.iter_modules(hightide.v1.__path__)
    if each.name.endswith("_pb2")
]
METHODS: list[MethodDescriptor] = [
    method
    for module in MODULES
    for service in module.DESCRIPTOR.services_by_name.values()
    for method in service.methods
]
FOR_THE_CLUSTER = {
    "BrokerControlService/LeaderAndISR",
    "BrokerControlService/StopReplica",
    "BrokerControlService/UpdateMetadata",
    "ControllerService/ControlledShutdown",
    "ControllerService/ReportFailedReplicas",
    "ReplicaService/DigestBatches",
    "ReplicaService/EndOffsetForLeaderEpoch",
    "ReplicaService/ReplicaFetch",
}

CHECKED_BY_THE_SERVICE = {
    "BrokerService/DeleteRecords",
    "BrokerService/DescribeProducers",
    "BrokerService/Fetch",
    "BrokerService/GetMetadata",
    "BrokerService/ListOffsets",
    "BrokerService/Produce",
    "CallStreamService/OpenCallStream",
    "ControllerService/DescribeTopics",
    "CoordinatorService/ListGroups",
    "CoordinatorService/RegisterConsumer",
}
"""tests/integration/local/test_acls_cluster.py calls each of them without the right to. Each call on a stream
is checked as if it had come by itself: tests/integration/runtime/test_call_streams.py."""


def rule_for(method: MethodDescriptor) -> AccessRule:
    return rule_of(method.containing_service.full_name, method.name)


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_each_method_of_the_contract_has_a_whole_rule(method: MethodDescriptor) -> None:
    rule = rule_for(method)
    assert rule.roles
    assert rule.operation != "unspecified"
    assert rule.resource_type != "unspecified"


def test_the_external_listener_serves_all_but_what_processes_of_the_cluster_do_for_each_other() -> None:
    internal = {
        f"{each.containing_service.name}/{each.name}" for each in METHODS if not rule_for(each).is_external
    }
    assert internal == FOR_THE_CLUSTER


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_clients_may_call_what_the_external_listener_serves_and_nothing_else(
    method: MethodDescriptor,
) -> None:
    rule = rule_for(method)
    assert (Role.CLIENT in rule.roles) is rule.is_external
    assert (rule.operation == "cluster_action") is not rule.is_external


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_all_that_creates_deletes_or_alters_is_audited(method: MethodDescriptor) -> None:
    rule = rule_for(method)
    changes = rule.operation in {"create", "delete", "alter", "alter_configs"}
    assert rule.is_audited is (changes or method.name in {"ControlledShutdown", "ResetOffsets"})


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_the_path_of_the_subject_leads_to_a_field_of_the_request(method: MethodDescriptor) -> None:
    message = method.input_type
    *nested, last = rule_for(method).subject_path or ("",)
    for name in nested:
        field = message.fields_by_name[name]
        assert field.message_type is not None
        message = field.message_type
    assert not last or last in message.fields_by_name


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_with_acls_somebody_checks_the_topics_and_the_group_of_each_method(method: MethodDescriptor) -> None:
    """The interceptor does, by the field that names them, and otherwise the service."""
    rule = rule_for(method)
    name = f"{method.containing_service.name}/{method.name}"
    assert (name in CHECKED_BY_THE_SERVICE) is (rule.resource_type != "cluster" and not rule.resource_path)
    if rule.resource_path:
        assert not method.client_streaming, "its requests are not known when it begins"
        message = method.input_type
        *nested, last = rule.resource_path
        for step in nested:
            field = message.fields_by_name[step]
            assert field.message_type is not None
            message = field.message_type
        assert message.fields_by_name[last].type == FieldDescriptor.TYPE_STRING


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_what_only_processes_of_the_cluster_may_call_says_which_process_speaks(
    method: MethodDescriptor,
) -> None:
    """One role: an id of a broker is not the id of a controller."""
    rule = rule_for(method)
    assert bool(rule.own_id_path) is not rule.is_external
    if rule.own_id_path:
        assert len(rule.roles) == 1
        message = method.input_type
        *nested, last = rule.own_id_path
        for name in nested:
            field = message.fields_by_name[name]
            assert field.message_type is not None
            assert not field.is_repeated
            message = field.message_type
        assert message.fields_by_name[last].type == FieldDescriptor.TYPE_INT32
        assert not message.fields_by_name[last].is_repeated


@pytest.mark.parametrize("method", METHODS, ids=lambda method: method.full_name)
def test_rules_about_the_content_of_a_request_are_of_methods_with_one_request_and_one_answer(
    method: MethodDescriptor,
) -> None:
    rule = rule_for(method)
    is_unary = not method.client_streaming and not method.server_streaming
    assert is_unary or not (rule.is_audited or rule.own_id_path)


@pytest.mark.parametrize("listener", Listener)
def test_a_method_without_a_rule_is_not_served(listener: Listener) -> None:
    async def call(request: object, context: object) -> None:
        raise AssertionError("not called")

    with pytest.raises(AssertionError, match=r"test\.Unheard/Of is of no \.proto file"):
        AccessInterceptor(listener, AuditLog(lambda delay_s, callback: None), None).around_unary(
            Method("test.Unheard", "Of"), call
        )


def test_a_method_whose_rule_was_forgotten_is_not_served() -> None:
    declare("test.Forgotten", "Rule", rule=None)
    with pytest.raises(AssertionError, match=r"test\.Forgotten/Rule has no rule; give it the option"):
        rule_of("test.Forgotten", "Rule")


def test_a_rule_that_names_nobody_lets_nobody_in() -> None:
    declare("test.Nobody", "May", access_pb2.AccessRule())
    rule = rule_of("test.Nobody", "May")
    assert (rule.roles, rule.is_external) == (frozenset(), False)
