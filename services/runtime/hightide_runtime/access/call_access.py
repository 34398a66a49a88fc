"""What the caller of the current call may do, for servicers whose requests name several topics or groups."""

from __future__ import annotations

from contextvars import ContextVar
from typing import Protocol

from hightide.v1.errors_pb2 import ErrorCode

from hightide_runtime.access.authoriser import Authoriser
from hightide_runtime.access.principals import Principal
from hightide_runtime.errors import ServiceError

__all__ = ["ACCESS", "CallAccess", "TellDenial", "current_access"]


class TellDenial(Protocol):
    """Writes the line of a denial into the audit log."""

    def __call__(self, why: str, resource: str) -> None:
        """`resource`: the name of what the caller wanted to use."""
        ...


class CallAccess:
    """The rights of one caller. It outlives the call where the call is a stream, and then tells what the ACLs
    say by now."""

    __slots__ = ("_authoriser", "_denied", "principal")

    def __init__(self, principal: Principal, authoriser: Authoriser, denied: TellDenial) -> None:
        self.principal = principal
        self._authoriser = authoriser
        self._denied = denied

    def sees(self, topic: str) -> bool:
        """Whether the caller may know that there is this topic. Nothing is written into the audit log."""
        return self._authoriser.allows(self.principal, "describe", "topic", topic)

    def sees_group(self, group: str) -> bool:
        """Whether the caller may know that there is this group. Nothing is written into the audit log."""
        return self._authoriser.allows(self.principal, "describe", "group", group)

    def refused(self, operation: str, topic: str) -> ErrorCode.ValueType | None:
        """Why the caller may not do this to a topic: UNKNOWN_TOPIC if it may not know that there is one,
        else NOT_AUTHORIZED. None: it may. A refusal is written into the audit log."""
        if self._authoriser.allows(self.principal, operation, "topic", topic):
            return None
        is_hidden = operation == "describe" or not self.sees(topic)
        if operation != "describe":
            # Metadata and lists leave out what is hidden. A line for each such topic would tell nothing.
            self._denied(f"no ACL allows {self.principal} to {operation} topic {topic}", topic)
        return ErrorCode.ERROR_CODE_UNKNOWN_TOPIC if is_hidden else ErrorCode.ERROR_CODE_NOT_AUTHORIZED

    def reads_all(self, prefix: str) -> bool:
        """Whether the caller may read every topic whose name begins with this."""
        return self._authoriser.allows_all(self.principal, "read", "topic", prefix)

    def not_authorised(self, operation: str, resource_type: str, name: str) -> ServiceError | None:
        """The error for a caller that may not do this; None: it may. It is written into the audit log."""
        if self._authoriser.allows(self.principal, operation, resource_type, name):
            return None
        return self.denied(operation, resource_type, name)

    def denied(self, operation: str, resource_type: str, name: str) -> ServiceError:
        """The error for a caller that may not do this. It is written into the audit log."""
        refusal = not_authorised(self.principal, operation, resource_type, name)
        self._denied(refusal.message, name)
        return refusal


def not_authorised(principal: Principal, operation: str, resource_type: str, name: str) -> ServiceError:
    """The error for a caller that the ACLs do not allow this."""
    return ServiceError(
        ErrorCode.ERROR_CODE_NOT_AUTHORIZED,
        why_not(principal, operation, resource_type, name),
        {"caller": str(principal), "operation": operation, "resource_type": resource_type, "name": name},
    )


def why_not(principal: Principal, operation: str, resource_type: str, name: str) -> str:
    """The sentence for a caller that the ACLs do not allow this."""
    what = "the cluster" if resource_type == "cluster" else f"{resource_type} {name}"
    return f"{principal} may not {operation} {what}: no ACL allows it; an operator can (`hightide acl add`)"


#: Set by the access interceptor where ACLs are in force, for the task of the call.
ACCESS: ContextVar[CallAccess | None] = ContextVar("access", default=None)


def current_access() -> CallAccess | None:
    """What the caller of the current call may do; None: everything, since no ACLs are in force."""
    return ACCESS.get()
