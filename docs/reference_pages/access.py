"""docs/reference/access.md: the rule of every method of the contract."""

from google.protobuf.descriptor import ServiceDescriptor
from hightide.v1 import (
    broker_control_service_pb2,
    broker_service_pb2,
    call_stream_service_pb2,
    controller_service_pb2,
    coordinator_service_pb2,
    replica_service_pb2,
    server_service_pb2,
)
from hightide_runtime.access.principals import Role
from hightide_runtime.access.rules import rule_of

from reference_pages.markdown import code, page, table

_FILES = (
    broker_service_pb2,
    controller_service_pb2,
    coordinator_service_pb2,
    server_service_pb2,
    replica_service_pb2,
    broker_control_service_pb2,
    call_stream_service_pb2,
)


def text() -> str:
    """The page."""
    return page(
        "Access",
        """Who may call what ([Security](../security.md)). Each `rpc` in `protos/hightide/v1/` carries its
        rule as the option `(hightide.v1.access)`. *External*: the external listener serves the method as
        well as the internal one. *Client*, *broker*, *controller*, *coordinator*: whether a caller of this
        role may call it, where callers show certificates; *itself*: only for itself, as the field of the
        request says that is named here. *Operation* and *resource* are in the words of Kafka's ACLs.
        *Audited*: each call has a line in the [audit log](../security.md#the-audit-log); refusals of all
        methods have one. Both listeners serve `grpc.health.v1.Health`, to everybody. The internal listener
        serves reflection and channelz; the external one does with `--external-introspection`.""",
        *(_section(service) for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()),
    )


_ROLES = (Role.CLIENT, Role.BROKER, Role.CONTROLLER, Role.COORDINATOR)


def _section(service: ServiceDescriptor) -> str:
    rows = []
    for method in service.methods:
        rule = rule_of(service.full_name, method.name)
        itself = f"itself: {code('.'.join(rule.own_id_path))}" if rule.own_id_path else "yes"
        rows.append(
            (
                code(method.name),
                _yes(rule.is_external),
                *(itself if role in rule.roles else "no" for role in _ROLES),
                rule.operation,
                rule.resource_type,
                _yes(rule.is_audited),
            )
        )
    return f"## `{service.name}`\n\n" + table(
        ("method", "external", *_ROLES, "operation", "resource", "audited"), rows
    )


def _yes(holds: bool) -> str:
    return "yes" if holds else "no"
