"""Who calls: the roles that callers have."""

import enum


class Role(enum.StrEnum):
    """What a caller is."""

    BROKER = "broker"
    CONTROLLER = "controller"
    COORDINATOR = "coordinator"
    #: An application or an operator.
    CLIENT = "client"
