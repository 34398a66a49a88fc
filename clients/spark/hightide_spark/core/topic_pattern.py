"""Patterns of topic names: RE2 expressions for the whole name, as in the consumer groups of the SDK.

A group's pattern is compiled by the coordinator. A read of Spark has none, and looks for its topics on the
driver, with the RE2 of Arrow. RE2 is what all patterns here have in common: it takes linear time for any of
them. It has no look-ahead, no look-behind and no back-references, which Java and Python have.
"""

from functools import lru_cache
from typing import Final

CHARACTERS_MAX: Final = 1_000
_BEYOND_RE2: Final = ("(?=", "(?!", "(?<=", "(?<!")
# A trigger asks about all partitions of the cluster again and again.
_REMEMBERED_MAX: Final = 1 << 16


def checked_pattern(pattern: str) -> str:
    """Return the pattern. Raises ValueError if it is empty, too long, or no expression of RE2."""
    if not pattern:
        raise ValueError("it may not be empty")
    if len(pattern) > CHARACTERS_MAX:
        raise ValueError(f"it has {len(pattern)} characters, and may have {CHARACTERS_MAX}")
    # Here, because few reads have a pattern, and Arrow is slow to import.
    import pyarrow as pa
    import pyarrow.compute as pc

    try:
        # As it stands: within the brackets of `matches`, `a)(b` would be an expression.
        pc.match_substring_regex(pa.array([""]), pattern=pattern)
    except pa.ArrowInvalid as error:
        reason = str(error).removeprefix("Invalid regular expression: ")
        raise ValueError(f"it is no RE2 expression ({reason}){_instead(pattern)}") from error
    except UnicodeEncodeError as error:
        raise ValueError("it is not valid Unicode") from error
    return pattern


def _instead(pattern: str) -> str:
    if any(each in pattern for each in _BEYOND_RE2):
        return "; RE2 looks neither ahead nor behind: name the topics in subscribe, or filter by column topic"
    return ""


@lru_cache(_REMEMBERED_MAX)
def matches(pattern: str, topic: str) -> bool:
    """Whether a checked pattern matches the whole name."""
    import pyarrow as pa
    import pyarrow.compute as pc

    found: bool = pc.match_substring_regex(pa.array([topic]), pattern=rf"\A(?:{pattern})\z")[0].as_py()
    return found
