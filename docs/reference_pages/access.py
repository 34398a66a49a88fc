"""docs/reference/access.md: the rule of every method of the contract."""

from google.protobuf.descriptor import ServiceDescriptor
from hightide.v1 import (
    broker_control_service_pb2,
    broker_service_pb2,
    controller_service_pb2,
    coordinator_service_pb2,
    replica_service_pb2,
    server_service_pb2,
)
from hightide_runtime.access.rules import rule_of

from reference_pages.markdown import code, page, table

_FILES = (
    broker_service_pb2,
    controller_service_pb2,
    coordinator_service_pb2,
    server_service_pb2,
    replica_service_pb2,
    broker_control_service_pb2,
)


def text() -> str:
    """The page."""
    return page(
        "Access",
        """What each listener serves ([Security](../security.md#two-listeners)). Each `rpc` in
        `protos/hightide/v1/` carries its rule as the option `(hightide.v1.access)`. *External*: the external
        listener serves the method as well as the internal one. *Operation* and *resource* are in the words of
        Kafka's ACLs. Both listeners serve `grpc.health.v1.Health`. The internal listener serves reflection
        and channelz; the external one does with `--external-introspection`.""",
        *(_section(service) for file in _FILES for service in file.DESCRIPTOR.services_by_name.values()),
    )


def _section(service: ServiceDescriptor) -> str:
    rows = []
    for method in service.methods:
        rule = rule_of(service.full_name, method.name)
        external, audited = ("yes" if each else "no" for each in (rule.is_external, rule.is_audited))
        rows.append((code(method.name), external, rule.operation, rule.resource_type, audited))
    return f"## `{service.name}`\n\n" + table(
        ("method", "external", "operation", "resource", "audited"), rows
    )
