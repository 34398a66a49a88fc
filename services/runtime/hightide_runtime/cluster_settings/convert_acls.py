"""ACLs between the contract's messages and the rules that are in ZooKeeper."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from hightide.v1 import access_pb2
from hightide.v1 import controller_service_pb2 as controller_pb2
from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.acls import Decision
from hightide_runtime.cluster_settings.acl_changes import AclChange
from hightide_runtime.errors import ServiceError
from hightide_runtime.znodes.acls_znode import ACLS_MAX, CLUSTER_NAME, Acl, Effect, InvalidAcl, Pattern

__all__ = ["access_question_in", "acls_out", "changes_in", "decision_out"]

_EFFECTS: Final = {controller_pb2.ACL_EFFECT_ALLOW: Effect.ALLOW, controller_pb2.ACL_EFFECT_DENY: Effect.DENY}
_PATTERNS: Final = {
    controller_pb2.ACL_PATTERN_UNSPECIFIED: Pattern.LITERAL,
    controller_pb2.ACL_PATTERN_LITERAL: Pattern.LITERAL,
    controller_pb2.ACL_PATTERN_PREFIX: Pattern.PREFIX,
}
_OPERATIONS: Final = {
    number: name.removeprefix("OPERATION_").lower() for name, number in access_pb2.Operation.items()
}
_RESOURCE_TYPES: Final = {
    number: name.removeprefix("RESOURCE_TYPE_").lower() for name, number in access_pb2.ResourceType.items()
}


def changes_in(request: controller_pb2.AlterAclsRequest) -> list[AclChange]:
    """The changes of an AlterAcls request. Raises ServiceError."""
    if not 1 <= len(request.changes) <= ACLS_MAX:
        raise ServiceError(
            ErrorCode.ERROR_CODE_LIMIT_EXCEEDED,
            f"the request has {len(request.changes)} changes; send 1 to {ACLS_MAX}",
        )
    changes = []
    for number, change in enumerate(request.changes):
        kind = change.WhichOneof("change")
        if kind is None:
            raise _invalid(f"change {number} of the request neither adds nor removes a rule")
        try:
            changes.append(AclChange(_acl_in(getattr(change, kind)), kind == "add"))
        except InvalidAcl as error:
            raise _invalid(f"change {number} of the request: {error}") from None
    return changes


def _acl_in(acl: controller_pb2.Acl) -> Acl:
    effect, pattern = _EFFECTS.get(acl.effect), _PATTERNS.get(acl.pattern)
    if effect is None:
        raise InvalidAcl("the effect is neither ALLOW nor DENY")
    if pattern is None:
        raise InvalidAcl(f"the pattern {acl.pattern} is neither LITERAL nor PREFIX")
    return Acl(
        acl.principal,
        effect,
        _OPERATIONS.get(acl.operation, str(acl.operation)),
        _RESOURCE_TYPES.get(acl.resource_type, str(acl.resource_type)),
        acl.name,
        pattern,
    )


def acls_out(acls: Iterable[Acl]) -> list[controller_pb2.Acl]:
    """The rules as messages."""
    return [acl_out(acl) for acl in acls]


def acl_out(acl: Acl) -> controller_pb2.Acl:
    """One rule as a message."""
    return controller_pb2.Acl(
        principal=acl.principal,
        effect=controller_pb2.AclEffect.Value(f"ACL_EFFECT_{acl.effect.name}"),
        operation=access_pb2.Operation.Value(f"OPERATION_{acl.operation.upper()}"),
        resource_type=access_pb2.ResourceType.Value(f"RESOURCE_TYPE_{acl.resource_type.upper()}"),
        name=acl.name,
        pattern=controller_pb2.AclPattern.Value(f"ACL_PATTERN_{acl.pattern.name}"),
    )


def access_question_in(request: controller_pb2.CheckAccessRequest) -> tuple[str, str, str, str]:
    """The principal, the operation, the resource type and the name of a CheckAccess request. Raises
    ServiceError."""
    resource_type = _RESOURCE_TYPES.get(request.resource_type, str(request.resource_type))
    name = request.name or (CLUSTER_NAME if resource_type == CLUSTER_NAME else "")
    operation = _OPERATIONS.get(request.operation, str(request.operation))
    try:
        # What no rule can be about, nobody can ask.
        Acl(request.principal, Effect.ALLOW, operation, resource_type, name)
    except InvalidAcl as error:
        raise _invalid(str(error)) from None
    if "*" in request.principal or name == "*" or operation == "all":
        raise _invalid("ask about one client, one operation and one topic or group at a time")
    return request.principal, operation, resource_type, name


def decision_out(decision: Decision) -> controller_pb2.CheckAccessResponse:
    """The answer to CheckAccess."""
    acl = None if decision.acl is None else acl_out(decision.acl)
    return controller_pb2.CheckAccessResponse(
        is_allowed=decision.is_allowed, acl=acl, is_super_user=decision.is_super_user
    )


def _invalid(message: str) -> ServiceError:
    return ServiceError(ErrorCode.ERROR_CODE_INVALID_REQUEST, message)
