"""docs/reference/znodes.md: what is in ZooKeeper."""

import dataclasses
import inspect
from types import ModuleType

from hightide_runtime.znodes import (
    acls_znode,
    admin_znodes,
    cluster_znodes,
    coordination_znode,
    group_znodes,
    leaders_znodes,
    quotas_znode,
)

from reference_pages.markdown import code, page, table, whole

_KINDS = (("int", "whole number"), ("str", "text"), ("bool", "true or false"))


def text() -> str:
    """The page."""
    return page(
        "Znodes",
        """Everything that Hightide writes into ZooKeeper, below the chroot of `--zookeeper`. The content is
        JSON. Versions, czxids and the like are ZooKeeper's own. What an operator may write, and how, is in
        [Operating](../operating.md#by-a-zookeeper-shell).
        The last table is of clusters [whose leaders decide for themselves](../design/leaders.md).""",
        *(_section(title, module) for title, module in (
            ("Cluster, brokers, topics", cluster_znodes),
            ("How the cluster is coordinated", coordination_znode),
            ("What operators ask for", admin_znodes),
            ("Quotas", quotas_znode),
            ("Consumer groups", group_znodes),
            ("Who may do what", acls_znode),
            ("A cluster that leaders coordinate", leaders_znodes),
        )),
    )  # fmt: skip


def _section(title: str, module: ModuleType) -> str:
    rows = []
    for cls in vars(module).values():
        if not (inspect.isclass(cls) and dataclasses.is_dataclass(cls) and cls.__module__ == module.__name__):
            continue
        if not cls.__name__.endswith("Znode"):
            continue  # What a znode consists of.
        path, _, meaning = whole(cls.__doc__ or "").partition(": ")
        path, _, kind = path.partition(", ")
        assert path.startswith("/"), f"{cls.__name__} does not begin with its path"
        names = (each.metadata.get("znode", each.name) for each in dataclasses.fields(cls))
        fields = ", ".join(map(code, filter(None, names)))
        rows.append((code(path), kind or "persistent", fields, meaning[:1].upper() + meaning[1:]))
    return f"## {title}\n\n" + table(("path", "kind", "holds", "meaning"), sorted(rows))
