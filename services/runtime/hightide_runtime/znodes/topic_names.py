"""The allowed names of topics: a name becomes a path only in ZooKeeper, and is safe there."""

import re

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(name: str) -> bool:
    """Whether `name` is 1 to 249 characters of [a-zA-Z0-9._-] and neither `.` nor `..`.

    The controller asks before it creates a topic, and for every child of /brokers/topics that it did
    not write itself; every znode object of a topic asserts it.
    """
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")
