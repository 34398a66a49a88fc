"""What the ACLs of a cluster decide. Pure: no clock, no I/O.

The rules are those of Kafka's AclAuthorizer: a rule that denies wins, what no rule allows is denied, super
users may do everything, and who may read, write, delete or alter something may describe it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from hightide_runtime.znodes.acls_znode import (
    ALL,
    ANY_CLIENT,
    ANY_NAME,
    ANY_PRINCIPAL,
    Acl,
    Effect,
    Pattern,
)

__all__ = ["NO_ACLS", "AclTable", "Decision"]

DECISIONS_MAX: Final = 20_000
"""How many decisions a table remembers. When there are more, it forgets all of them."""
NAME_CHARACTERS_MAX: Final = 249
_IMPLIED: Final = {
    "describe": frozenset({"describe", "read", "write", "delete", "alter", ALL}),
}
"""The operations of rules that allow an operation, where these are more than itself and ALL."""
_CLIENT: Final = "client/"


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether a principal may do something, and why."""

    is_allowed: bool
    #: The rule that decides. None: that no rule allows it, or that the principal is a super user.
    acl: Acl | None = None
    is_super_user: bool = False


class AclTable:
    """The ACLs of a cluster at one time. It never changes: a change of the ACLs is another table.

    A decision costs one look-up once it was made. Before, it costs as many as there are lengths of prefixes.
    """

    def __init__(self, acls: Iterable[Acl], super_users: Iterable[str] = ()) -> None:
        """`super_users`: principals, as text."""
        self.acls = tuple(sorted(set(acls)))
        self._super_users = frozenset(super_users)
        self._by_resource: dict[tuple[str, str, str, Pattern], list[Acl]] = {}
        """By principal, resource type, name and pattern. The name `*` is the prefix of no characters."""
        self._by_principal: dict[tuple[str, str], list[Acl]] = {}
        for acl in self.acls:
            key = (acl.principal, acl.resource_type, *_pattern_of(acl))
            self._by_resource.setdefault(key, []).append(acl)
            self._by_principal.setdefault((acl.principal, acl.resource_type), []).append(acl)
        self._lengths = tuple(
            sorted({len(key[2]) for key in self._by_resource if key[3] is Pattern.PREFIX}, reverse=True)
        )
        self._decided: dict[tuple[str, str, str, str | None], bool] = {}
        """Decisions that were made; of `decide_any`, those without a name."""

    def decide(self, principal: str, operation: str, resource_type: str, name: str) -> bool:
        """Whether the principal may do this. `operation` and `resource_type` as in the rule of a method."""
        key = (principal, operation, resource_type, name)
        decided = self._decided.get(key)
        if decided is None:
            decided = self.explain(*key).is_allowed
            # A longer name names nothing, and would be a way to fill the memory.
            if len(name) <= NAME_CHARACTERS_MAX:
                self._remember(key, is_allowed=decided)
        return decided

    def _remember(self, key: tuple[str, str, str, str | None], *, is_allowed: bool) -> None:
        if len(self._decided) >= DECISIONS_MAX:
            self._decided.clear()
        self._decided[key] = is_allowed

    def explain(self, principal: str, operation: str, resource_type: str, name: str) -> Decision:
        """As `decide`, with the rule that decides: of several, the one with the longest name."""
        if principal in self._super_users:
            return Decision(is_allowed=True, is_super_user=True)
        allowing = _IMPLIED.get(operation, frozenset({operation, ALL}))
        allowed: Acl | None = None
        for acl in self._about(principal, resource_type, name):
            if acl.effect is Effect.DENY and acl.operation in (operation, ALL):
                return Decision(is_allowed=False, acl=acl)
            if allowed is None and acl.effect is Effect.ALLOW and acl.operation in allowing:
                allowed = acl
        return Decision(allowed is not None, allowed)

    def decide_any(self, principal: str, operation: str, resource_type: str) -> bool:
        """Whether there is a name for which the principal may do this, as far as rules tell (KIP-679): one
        rule allows it, and none denies it for all of its names."""
        key = (principal, operation, resource_type, None)
        decided = self._decided.get(key)
        if decided is None:
            decided = self._allows_any(principal, operation, resource_type)
            self._remember(key, is_allowed=decided)
        return decided

    def decide_all(self, principal: str, operation: str, resource_type: str, prefix: str) -> bool:
        """Whether the principal may do this to every name that begins with a prefix: one rule allows it for
        all of them, and none denies it for any."""
        if principal in self._super_users:
            return True
        rules = self._rules_of(principal, resource_type)
        allowing = _IMPLIED.get(operation, frozenset({operation, ALL}))
        is_denied = any(
            acl.operation in (operation, ALL) and _meets(acl, prefix)
            for acl in rules
            if acl.effect is Effect.DENY
        )
        return not is_denied and any(
            acl.operation in allowing and _is_prefix_of(acl, prefix)
            for acl in rules
            if acl.effect is Effect.ALLOW
        )

    def _rules_of(self, principal: str, resource_type: str) -> list[Acl]:
        """The rules about this principal and any resource of this type."""
        return [
            acl for each in _names_of(principal) for acl in self._by_principal.get((each, resource_type), ())
        ]

    def _allows_any(self, principal: str, operation: str, resource_type: str) -> bool:
        if principal in self._super_users:
            return True
        rules = self._rules_of(principal, resource_type)
        allowing = _IMPLIED.get(operation, frozenset({operation, ALL}))
        denied = [
            _pattern_of(acl)
            for acl in rules
            if acl.effect is Effect.DENY and acl.operation in (operation, ALL)
        ]
        prefixes = tuple(name for name, pattern in denied if pattern is Pattern.PREFIX)
        return any(
            acl.effect is Effect.ALLOW
            and acl.operation in allowing
            and _pattern_of(acl) not in denied
            and not _pattern_of(acl)[0].startswith(prefixes)
            for acl in rules
        )

    def _about(self, principal: str, resource_type: str, name: str) -> Iterator[Acl]:
        """The rules about this principal and this resource, those with the longest names first."""
        for each in _names_of(principal):
            yield from self._by_resource.get((each, resource_type, name, Pattern.LITERAL), ())
        for length in self._lengths:
            if length <= len(name):
                for each in _names_of(principal):
                    key = (each, resource_type, name[:length], Pattern.PREFIX)
                    yield from self._by_resource.get(key, ())


NO_ACLS: Final = AclTable(())


def _names_of(principal: str) -> tuple[str, ...]:
    """The principals of the rules that are about this one."""
    if principal.startswith(_CLIENT):
        return (principal, ANY_CLIENT, ANY_PRINCIPAL)
    return (principal, ANY_PRINCIPAL)


def _pattern_of(acl: Acl) -> tuple[str, Pattern]:
    if (acl.name, acl.pattern) == (ANY_NAME, Pattern.LITERAL):
        return "", Pattern.PREFIX
    return acl.name, acl.pattern


def _is_prefix_of(acl: Acl, prefix: str) -> bool:
    name, pattern = _pattern_of(acl)
    return pattern is Pattern.PREFIX and prefix.startswith(name)


def _meets(acl: Acl, prefix: str) -> bool:
    """Whether the rule is about any name that begins with the prefix."""
    name, pattern = _pattern_of(acl)
    return name.startswith(prefix) or (pattern is Pattern.PREFIX and prefix.startswith(name))
