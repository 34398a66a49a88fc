"""The rule for the names of topics. An allowed name is safe as a part of a ZooKeeper path."""

import re

_LEGAL = re.compile(r"[a-zA-Z0-9._-]{1,249}")


def is_legal_topic_name(name: str) -> bool:
    """Whether `name` is 1 to 249 characters of [a-zA-Z0-9._-] and neither `.` nor `..`.

    The controller calls it before it creates a topic, and for each child of /brokers/topics that it did not
    write. Each znode class of topics asserts it.
    """
    return _LEGAL.fullmatch(name) is not None and name not in (".", "..")
