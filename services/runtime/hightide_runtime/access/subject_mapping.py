"""Whose a certificate without a SPIFFE URI is: rules that make the name of a client of its subject.

They have the form of Kafka's `ssl.principal.mapping.rules`: `RULE:<pattern>/<replacement>/` with an `L` or
`U` behind it for lower or upper case, separated by commas. The first rule whose pattern matches the whole
subject decides. The subject is written as RFC 2253 has it (`CN=alice,OU=apps,O=Acme\\, Inc.`), which escapes
whatever could be taken for a separator. Patterns are RE2, which takes linear time for any subject.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from hightide_runtime.access.callers import UnknownIdentity
from hightide_runtime.access.principals import CLIENT_NAME, Principal, Role

RULES_MAX: Final = 32
CHARACTERS_MAX: Final = 8_192
SUBJECT_BYTES_MAX: Final = 4_096
PROGRAM_MEMORY_BYTES_MAX: Final = 1 << 20
"""The memory of a compiled pattern and its automaton."""
_RULE = re.compile(r"RULE:(?P<pattern>(?:\\.|[^\\/])+)/(?P<replacement>[^/]*)/(?P<case>[LU]?)")
_NAME = re.compile(CLIENT_NAME)
_PIECE = re.compile(r"\$(?P<group>[0-9])|(?P<text>[a-zA-Z0-9._-]+)")


class InvalidMapping(ValueError):
    """Rules that cannot be used; the message is a sentence with the rule and the next step."""


@dataclass(frozen=True, slots=True)
class _Rule:
    compiled: Any
    #: Texts, and the numbers of groups.
    pieces: tuple[str | int, ...]
    case: str

    def name_in(self, subject: str) -> str | None:
        """What the rule makes of the subject; None: its pattern does not match."""
        matched = self.compiled.fullmatch(subject)
        if matched is None:
            return None
        pieces = (matched.group(each) if isinstance(each, int) else each for each in self.pieces)
        name = "".join(each or "" for each in pieces)
        return {"L": name.lower(), "U": name.upper()}.get(self.case, name)


class SubjectMapping:
    """The rules of one server. What they yield is a client, and never a process of the cluster."""

    def __init__(self, rules: Sequence[_Rule]) -> None:
        self._rules = tuple(rules)
        self._cached = lru_cache(maxsize=1024)(self._mapped)

    @classmethod
    def parse(cls, text: str) -> "SubjectMapping":
        """Read the rules, when a process starts. Raises InvalidMapping."""
        if len(text) > CHARACTERS_MAX:
            raise InvalidMapping(f"the rules have {len(text)} characters; they may have {CHARACTERS_MAX}")
        rules: list[_Rule] = []
        at = 0
        while True:
            matched = _RULE.match(text, at)
            if matched is None:
                raise InvalidMapping(
                    f"{text[at : at + 100]!r} is no rule of the form RULE:pattern/replacement/, with L or U "
                    "behind it for lower or upper case; a / in a pattern is written \\/. DEFAULT is none: a "
                    "whole subject is no name of a client"
                )
            rules.append(_compiled(matched))
            if len(rules) > RULES_MAX:
                raise InvalidMapping(f"there are more than {RULES_MAX} rules")
            at = matched.end()
            if at == len(text):
                return cls(rules)
            if text[at] != ",":
                raise InvalidMapping(f"{text[at : at + 100]!r} follows a rule; rules are separated by commas")
            at += 1

    def principal_of(self, subject: bytes) -> Principal:
        """The client whose certificate has this subject, as gRPC writes it. Raises UnknownIdentity."""
        return self._cached(subject)

    def _mapped(self, subject: bytes) -> Principal:
        told = subject[:300].decode("ascii", "replace")
        if not subject:
            raise UnknownIdentity("it has neither a SPIFFE URI nor a subject")
        if len(subject) > SUBJECT_BYTES_MAX:
            raise UnknownIdentity(
                f"its subject has {len(subject)} bytes, and may have {SUBJECT_BYTES_MAX}: {told!r}"
            )
        # RFC 2253 as gRPC's OpenSSL writes it is ASCII: other characters are escaped.
        text = subject.decode("ascii", "replace")
        for rule in self._rules:
            if (name := rule.name_in(text)) is not None:
                if _NAME.fullmatch(name) is None:
                    raise UnknownIdentity(
                        f"--subject-mapping makes {name[:100]!r} of its subject {told!r}, and the name of a "
                        "client has 1 to 200 characters of [a-zA-Z0-9._-]"
                    )
                return Principal(Role.CLIENT, name)
        raise UnknownIdentity(f"no rule of --subject-mapping matches its subject {told!r}")


def _compiled(rule: "re.Match[str]") -> _Rule:
    # Only here: most processes map no subjects.
    import re2

    options = re2.Options()
    options.max_mem = PROGRAM_MEMORY_BYTES_MAX
    options.log_errors = False
    pattern = rule["pattern"]
    try:
        compiled = re2.compile(pattern, options)
    except (re2.error, UnicodeEncodeError) as error:
        raise InvalidMapping(f"{pattern[:100]!r} is no RE2 expression: {error}; see RE2's syntax") from None
    pieces = _pieces(rule["replacement"])
    beyond = [each for each in pieces if isinstance(each, int) and each > compiled.groups]
    if beyond:
        raise InvalidMapping(f"${beyond[0]} is no group of {pattern[:100]!r}, which has {compiled.groups}")
    return _Rule(compiled, pieces, rule["case"])


def _pieces(replacement: str) -> tuple[str | int, ...]:
    pieces: list[str | int] = []
    at = 0
    while at < len(replacement):
        matched = _PIECE.match(replacement, at)
        if matched is None:
            raise InvalidMapping(
                f"the replacement {replacement[:100]!r} has {replacement[at]!r}: it may have groups of the "
                "pattern ($1), letters, digits, dots, dashes and underscores, as names of clients have them"
            )
        pieces.append(matched["text"] or int(matched["group"]))
        at = matched.end()
    return tuple(pieces)
