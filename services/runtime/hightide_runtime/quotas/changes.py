"""Changes of quotas, as requests ask for them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from hightide_runtime.znodes.quota import Quota


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """What shall change for one principal."""

    principal: str
    #: The limits to give a value; those that are None stay.
    set: Quota
    #: The names of limits to take away.
    reset: frozenset[str]


def altered(quotas: Mapping[str, Quota], changes: Iterable[QuotaChange]) -> dict[str, Quota]:
    """The quotas after these changes. A principal without any limit is not among them."""
    after = dict(quotas)
    for change in changes:
        before = after.pop(change.principal, Quota()).limits()
        kept = {name: value for name, value in before.items() if name not in change.reset}
        if limits := kept | change.set.limits():
            after[change.principal] = Quota(**limits)
    return after
