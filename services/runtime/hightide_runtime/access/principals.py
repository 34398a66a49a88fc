"""Who calls: the roles of callers, and the caller of the current call."""

import enum
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Final

CLIENT_NAME: Final = "[a-zA-Z0-9._-]{1,200}"
"""What the name of a client may be, as a regular expression: no name needs to be quoted anywhere."""


class Role(enum.StrEnum):
    """What a caller is."""

    BROKER = "broker"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator"
    #: An application or an operator.
    CLIENT = "client"
    #: Anybody who comes in where callers need not show who they are.
    ANONYMOUS = "anonymous"


@dataclass(frozen=True, slots=True)
class Principal:
    """One caller."""

    role: Role
    #: The id of a process of the cluster, or the name of a client. Empty for those who are anonymous.
    name: str = ""

    def __str__(self) -> str:
        return f"{self.role}/{self.name}" if self.name else str(self.role)


ANONYMOUS = Principal(Role.ANONYMOUS)
#: Set by the access interceptor, for the task of the call and the tasks that it starts.
CALLER: ContextVar[Principal] = ContextVar("caller", default=ANONYMOUS)


def current_caller() -> Principal:
    """Who makes the current call."""
    return CALLER.get()
