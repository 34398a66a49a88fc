"""/config/acls: who may do what to which topics and groups, and to the cluster.

The controller writes it, and every process watches it. An operator may write it in a ZooKeeper shell as well.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass
from typing import Final, Self

from hightide_runtime.znodes.content import Fields, dump, is_text

__all__ = [
    "ACLS_BYTES_MAX",
    "ACLS_MAX",
    "ALL",
    "ANY_CLIENT",
    "ANY_NAME",
    "ANY_PRINCIPAL",
    "CLUSTER_NAME",
    "OPERATIONS",
    "Acl",
    "AclsZnode",
    "Effect",
    "InvalidAcl",
    "Pattern",
]

ACLS_MAX: Final = 5_000
"""How many rules a cluster has at most."""
ACLS_BYTES_MAX: Final = 900_000
"""The largest content. ZooKeeper takes packets of 1 MiB by default."""
ANY_PRINCIPAL: Final = "*"
ANY_CLIENT: Final = "client/*"
ANY_NAME: Final = "*"
ALL: Final = "all"
"""The operation of a rule that is about every operation."""
CLUSTER_NAME: Final = "cluster"
"""The only name that the cluster has as a resource."""
OPERATIONS: Final[Mapping[str, frozenset[str]]] = {
    "topic": frozenset({ALL, "read", "write", "create", "delete", "alter", "describe", "alter_configs"}),
    "group": frozenset({ALL, "read", "delete", "describe"}),
    "cluster": frozenset({ALL, "create", "alter", "describe", "alter_configs", "idempotent_write"}),
}
"""What can be allowed and denied, by the type of the resource. `cluster_action` is not among them: it is for
the processes of the cluster, to whom no ACL applies."""
_PRINCIPAL: Final = re.compile(r"\*|anonymous|client/(?:\*|[a-zA-Z0-9._-]{1,200})")
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]{1,249}")


class InvalidAcl(Exception):
    """No rule can say this; the message says what is wrong, and what would be right."""


class Effect(enum.StrEnum):
    """What a rule does."""

    ALLOW = "allow"
    DENY = "deny"


class Pattern(enum.StrEnum):
    """Which names a rule is about."""

    #: The one that is given; all, if that is `*`.
    LITERAL = "literal"
    #: All that begin with what is given.
    PREFIX = "prefix"


@dataclass(frozen=True, slots=True, order=True)
class Acl:
    """One rule: whom it allows or denies what. Raises InvalidAcl if it cannot say that."""

    #: `client/alice`, `client/*` (every client), `anonymous`, or `*` (everybody).
    principal: str
    effect: Effect
    #: As in the contract, in lower case: "read". ALL: every operation.
    operation: str
    #: "topic", "group" or "cluster".
    resource_type: str
    #: `*`: every name.
    name: str
    pattern: Pattern = Pattern.LITERAL

    def __post_init__(self) -> None:
        if not _PRINCIPAL.fullmatch(self.principal):
            raise InvalidAcl(
                f"the principal {self.principal[:300]!r} is not client/NAME, client/*, anonymous or *"
            )
        operations = OPERATIONS.get(self.resource_type)
        if operations is None:
            known = ", ".join(OPERATIONS)
            raise InvalidAcl(f"the resource type {self.resource_type[:300]!r} is none of {known}")
        if self.operation not in operations:
            known = ", ".join(sorted(operations))
            raise InvalidAcl(
                f"a {self.resource_type} has no operation {self.operation[:300]!r}; it has {known}"
            )
        if self.resource_type == CLUSTER_NAME:
            is_valid = (self.name, self.pattern) == (CLUSTER_NAME, Pattern.LITERAL)
            expected = f"the literal name {CLUSTER_NAME}"
        else:
            is_any = (self.name, self.pattern) == (ANY_NAME, Pattern.LITERAL)
            is_valid = is_any or _NAME.fullmatch(self.name) is not None
            expected = "1 to 249 characters of [a-zA-Z0-9._-], or the literal name *"
        if not is_valid:
            raise InvalidAcl(f"the name {self.name[:300]!r} of a {self.resource_type} is not {expected}")

    def __str__(self) -> str:
        what = f"{self.resource_type} {self.name}{'*' if self.pattern is Pattern.PREFIX else ''}"
        return f"{self.effect} {self.principal} {self.operation} {what}"


_FIELDS: Final = ("principal", "effect", "operation", "resource_type", "name", "pattern")


@dataclass(frozen=True, slots=True)
class AclsZnode:
    """/config/acls: all rules of the cluster. There is no such znode before the first rule."""

    acls: tuple[Acl, ...] = ()

    @staticmethod
    def path() -> str:
        """/config/acls."""
        return "/config/acls"

    @classmethod
    def of(cls, acls: Iterable[Acl]) -> Self:
        """The content that has these rules, each once, in one order."""
        return cls(tuple(sorted(set(acls))))

    def encode(self) -> bytes:
        """The content as JSON. The caller checks it against ACLS_MAX and ACLS_BYTES_MAX."""
        acls = [dict(zip(_FIELDS, astuple(acl), strict=True)) for acl in self.acls]
        return dump({"version": 1, "acls": acls})

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Read the content; raises ZnodeGarbage. One rule that is none spoils all: the others would allow too
        much without a rule that denies."""
        fields = Fields(cls.path(), data)
        fields.integer("version", 1, 1)
        acls = fields.value("acls")
        if not isinstance(acls, list):
            raise fields.garbage("field acls is not a list")
        if len(acls) > ACLS_MAX:
            raise fields.garbage(f"it has {len(acls)} rules; there may be {ACLS_MAX}")
        return cls.of(_acl_in(fields, number, each) for number, each in enumerate(acls))


def _acl_in(fields: Fields, number: int, found: object) -> Acl:
    if not isinstance(found, dict) or set(found) != set(_FIELDS) or not all(map(is_text, found.values())):
        raise fields.garbage(f"rule {number} is not an object of the texts {', '.join(_FIELDS)}")
    try:
        effect, pattern = Effect(found["effect"]), Pattern(found["pattern"])
        return Acl(
            found["principal"], effect, found["operation"], found["resource_type"], found["name"], pattern
        )
    except (ValueError, InvalidAcl) as error:
        raise fields.garbage(f"rule {number}: {error}") from None
