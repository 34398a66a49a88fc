"""docs/reference/states.md: the state machines, from the tables that the code asserts."""

import ast
import inspect
from collections.abc import Mapping
from enum import Enum
from typing import NamedTuple, TypeVar

from hightide.consumer_group import membership_state
from hightide_broker.core import replica
from hightide_controller.core.state import cluster_state
from hightide_controller.core.values import partition
from hightide_coordinator.core.state import group

from reference_pages.markdown import code, page, table, whole

E = TypeVar("E", bound=Enum)


class Machine(NamedTuple):
    """One table, and what it is about."""

    title: str
    about: str
    states: type[Enum]
    table_name: str
    predecessors: Mapping[Enum, frozenset[Enum]]
    initial: tuple[Enum, ...]


def machines() -> tuple[Machine, ...]:
    """All of them, from the log outwards."""
    roles, states = replica.Role, group.GroupState
    return (
        Machine(
            "A replica",
            "What a broker does with its copy of a partition.",
            roles, "VALID_PREDECESSORS", _any(replica.VALID_PREDECESSORS), (roles.IDLE,),
        ),
        Machine(
            "A partition, as the controller sees it",
            "Whether it exists and is led.",
            partition.PartitionState, "VALID_PREDECESSORS", _any(partition.VALID_PREDECESSORS),
            (partition.PartitionState.NON_EXISTENT,),
        ),
        Machine(
            "A controller process",
            "Whether it decides.",
            cluster_state.Role, "VALID_ROLE_PREDECESSORS", _any(cluster_state.VALID_ROLE_PREDECESSORS),
            (cluster_state.Role.STANDBY,),
        ),
        Machine(
            "A consumer group, as its coordinator sees it",
            "Who reads which partition, and whether that is being changed.",
            states, "VALID_PREDECESSORS", _any(group.VALID_PREDECESSORS), (states.EMPTY, states.RECOVERING),
        ),
        Machine(
            "A consumer's membership in its group",
            "Where the SDK stands with the coordinator.",
            membership_state.MembershipState, "VALID_PREDECESSORS", _any(membership_state.VALID_PREDECESSORS),
            (membership_state.MembershipState.SEEKING,),
        ),
    )  # fmt: skip


def text() -> str:
    """The page."""
    return page(
        "States",
        """The states of what Hightide keeps, and which state may follow which. Each section is made from the
        table in the code against which every change of the state is checked. A change to the same state is
        not drawn.""",
        *(_section(machine) for machine in machines()),
    )


def _section(machine: Machine) -> str:
    assert set(machine.predecessors) == set(machine.states), f"{machine.title}: a state is not in the table"
    where = f"{machine.states.__module__}.{machine.table_name}"
    meanings = _meanings(machine.states)
    rows = [
        (
            code(state.name),
            meanings[state.name],
            ", ".join(code(each.name) for each in machine.states if each in _others(machine, state))
            or "none",
        )
        for state in machine.states
    ]
    return "\n\n".join(
        (
            f"## {machine.title}",
            f"{machine.about} The table is {code(where)}.",
            _diagram(machine),
            table(("state", "means", "entered from"), rows),
        )
    )


def _others(machine: Machine, state: Enum) -> frozenset[Enum]:
    return machine.predecessors[state] - {state}


def _diagram(machine: Machine) -> str:
    """In the notation of Mermaid."""
    arrows = [f"    [*] --> {state.name}" for state in machine.initial]
    arrows += [
        f"    {before.name} --> {state.name}"
        for before in machine.states
        for state in machine.states
        if before in _others(machine, state)
    ]
    return "\n".join(("```mermaid", "stateDiagram-v2", *arrows, "```"))


def _meanings(states: type[Enum]) -> dict[str, str]:
    """What stands below each member, or in the class's docstring as `NAME: meaning.`"""
    (cls,) = ast.parse(inspect.getsource(states)).body
    assert isinstance(cls, ast.ClassDef)
    meanings: dict[str, str] = {}
    for before, after in zip(cls.body, cls.body[1:], strict=False):
        if (
            isinstance(before, ast.Assign)
            and isinstance(before.targets[0], ast.Name)
            and isinstance(after, ast.Expr)
            and isinstance(after.value, ast.Constant)
        ):
            said = whole(str(after.value.value)).split(" Transitions: ")[0].removeprefix("Meaning: ")
            meanings[before.targets[0].id] = said[:1].upper() + said[1:]
    missing = [state.name for state in states if state.name not in meanings]
    assert not missing, f"{states.__name__} does not say what {missing} mean"
    return meanings


def _any(predecessors: Mapping[E, frozenset[E]]) -> Mapping[Enum, frozenset[Enum]]:
    return {state: frozenset(before) for state, before in predecessors.items()}
