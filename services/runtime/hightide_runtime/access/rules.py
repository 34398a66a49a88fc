"""The rule of each method, as protos/hightide/v1/access.proto defines it and each `rpc` carries it."""

from dataclasses import dataclass

from google.protobuf import descriptor_pool
from hightide.v1 import access_pb2

from hightide_runtime.access.principals import Role


@dataclass(frozen=True, slots=True)
class AccessRule:
    """What a method's option `(hightide.v1.access)` says."""

    #: Nobody else may call the method where callers show who they are.
    roles: frozenset[Role]
    #: Whether the external listener serves the method as well as the internal one.
    is_external: bool
    #: What it does, as in the contract: "read", "cluster_action".
    operation: str
    #: To what: "topic", "group" or "cluster".
    resource_type: str
    #: Whether the audit log has a line for each call.
    is_audited: bool
    #: The path of the field that names what an audited call is about; empty: it is about the cluster.
    subject_path: tuple[str, ...]
    #: The path of the field that must be the caller's own id; empty: the caller speaks for nobody else.
    own_id_path: tuple[str, ...]
    #: The path of the field that names the topics or the group of the call; empty with a topic or a group:
    #: the servicer checks each.
    resource_path: tuple[str, ...] = ()


def rule_of(service: str, method: str) -> AccessRule:
    """The rule of one method, by the full name of its service. Called when a server is built.

    A method without a rule is a bug of its author: AssertionError, and the server does not start.
    """
    try:
        descriptor = descriptor_pool.Default().FindServiceByName(service).methods_by_name[method]
    except KeyError:
        raise AssertionError(f"{service}/{method} is of no .proto file, so it has no rule") from None
    options = descriptor.GetOptions()
    if not options.HasExtension(access_pb2.access):
        raise AssertionError(f"{service}/{method} has no rule; give it the option (hightide.v1.access)")
    rule = options.Extensions[access_pb2.access]
    return AccessRule(
        frozenset(Role[_word(access_pb2.CallerRole.Name(role), "CALLER_ROLE_")] for role in rule.roles),
        rule.external,
        _word(access_pb2.Operation.Name(rule.operation), "OPERATION_").lower(),
        _word(access_pb2.ResourceType.Name(rule.resource_type), "RESOURCE_TYPE_").lower(),
        rule.audited,
        _path(rule.subject_field),
        _path(rule.own_id_field),
        _path(rule.resource_field),
    )


def _word(name: str, prefix: str) -> str:
    assert name.startswith(prefix), name
    return name[len(prefix) :]


def _path(field: str) -> tuple[str, ...]:
    return tuple(field.split(".")) if field else ()
