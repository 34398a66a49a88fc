"""The values of access control: rules, and what they decide. All of them are immutable."""

from dataclasses import dataclass
from typing import Literal

EffectName = Literal["allow", "deny"]
OperationName = Literal[
    "all",
    "read",
    "write",
    "create",
    "delete",
    "alter",
    "describe",
    "alter_configs",
    "idempotent_write",
]
ResourceTypeName = Literal["topic", "group", "cluster"]
PatternName = Literal["literal", "prefix"]


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One rule: whom it allows or denies what. A rule that denies wins over all that allow, and what no rule
    allows is denied. Who may read, write, delete or alter something may describe it.

    `principal`: "client/NAME", "client/*" for every client, "anonymous", or "*" for everybody. `name`: the
    name of the topic or the group, "*" for all; "cluster" for the cluster. With the pattern "prefix" the rule
    is about all names that begin with it.
    """

    principal: str
    effect: EffectName
    operation: OperationName
    resource_type: ResourceTypeName
    name: str
    pattern: PatternName = "literal"


@dataclass(frozen=True, slots=True)
class AclListing:
    """All rules of a cluster, by principal. `is_enforced`: whether its controller obeys them.
    `super_users`: who may do everything."""

    acls: tuple[Acl, ...]
    is_enforced: bool
    super_users: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AlteredAcls:
    """How many rules came, and how many went. What was asked for and was so already does not count."""

    added_count: int
    removed_count: int


@dataclass(frozen=True, slots=True)
class AccessDecision:
    """Whether somebody may do something. `acl` is the rule that decides: None if no rule allows it, and for a
    super user."""

    is_allowed: bool
    acl: Acl | None
    is_super_user: bool
