"""The requests of an admin client about who may do what. Sans-IO."""

from collections.abc import Iterable
from typing import Any, cast

from hightide.acls import AccessDecision, Acl, AclListing, AlteredAcls
from hightide.calls.call import Method
from hightide.cluster.operations import Operation, Operations
from hightide.errors import InvalidArgumentError
from hightide.v1 import access_pb2
from hightide.v1 import controller_service_pb2 as pb


class AclOperations(Operations):
    """The operations about ACLs. All of them can be repeated."""

    def describe_acls(self) -> Operation[AclListing]:
        """All rules."""
        answer = yield from self.order(
            Method.DESCRIBE_ACLS, pb.DescribeAclsRequest(), pb.DescribeAclsResponse
        )
        return AclListing(tuple(map(_acl_from, answer.acls)), answer.is_enforced, tuple(answer.super_users))

    def alter_acls(
        self, add: Iterable[Acl], remove: Iterable[Acl], *, validate_only: bool
    ) -> Operation[AlteredAcls]:
        """Remove some rules and add others, all or none."""
        changes = [pb.AclChange(remove=_acl_to(acl)) for acl in remove]
        changes += [pb.AclChange(add=_acl_to(acl)) for acl in add]
        if not changes:
            return AlteredAcls(0, 0)
        request = pb.AlterAclsRequest(changes=changes, validate_only=validate_only)
        answer = yield from self.order(Method.ALTER_ACLS, request, pb.AlterAclsResponse)
        return AlteredAcls(answer.added_count, answer.removed_count)

    def check_access(
        self, principal: str, operation: str, resource_type: str, name: str
    ) -> Operation[AccessDecision]:
        """What the rules decide."""
        request = pb.CheckAccessRequest(
            principal=principal,
            operation=_number(access_pb2.Operation, "OPERATION_", operation),
            resource_type=_number(access_pb2.ResourceType, "RESOURCE_TYPE_", resource_type),
            name=name,
        )
        answer = yield from self.order(Method.CHECK_ACCESS, request, pb.CheckAccessResponse)
        acl = _acl_from(answer.acl) if answer.HasField("acl") else None
        return AccessDecision(answer.is_allowed, acl, answer.is_super_user)


def _acl_to(acl: Acl) -> pb.Acl:
    return pb.Acl(
        principal=acl.principal,
        effect=_number(pb.AclEffect, "ACL_EFFECT_", acl.effect),
        operation=_number(access_pb2.Operation, "OPERATION_", acl.operation),
        resource_type=_number(access_pb2.ResourceType, "RESOURCE_TYPE_", acl.resource_type),
        name=acl.name,
        pattern=_number(pb.AclPattern, "ACL_PATTERN_", acl.pattern),
    )


def _acl_from(acl: pb.Acl) -> Acl:
    words = (
        acl.principal,
        _word(pb.AclEffect, "ACL_EFFECT_", acl.effect),
        _word(access_pb2.Operation, "OPERATION_", acl.operation),
        _word(access_pb2.ResourceType, "RESOURCE_TYPE_", acl.resource_type),
        acl.name,
        _word(pb.AclPattern, "ACL_PATTERN_", acl.pattern),
    )
    # A later version may have words that this one does not know.
    return Acl(*cast(tuple[Any, ...], words))


def _number(enum: Any, prefix: str, word: str) -> Any:
    """The number of a word in an enum of the contract. Raises InvalidArgumentError."""
    known: dict[str, int] = {
        name.removeprefix(prefix).lower(): number for name, number in enum.items() if number
    }
    if word not in known:
        raise InvalidArgumentError(f"{word!r} is none of {', '.join(known)}")
    return known[word]


def _word(enum: Any, prefix: str, number: int) -> str:
    if number not in enum.values():
        return str(number)
    name: str = enum.Name(number)
    return name.removeprefix(prefix).lower()
