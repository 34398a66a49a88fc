"""Rules that make the name of a client of the subject of a certificate."""

import pytest
from hightide_runtime.access.callers import UnknownIdentity
from hightide_runtime.access.identities import caller_of
from hightide_runtime.access.principals import Principal, Role
from hightide_runtime.access.subject_mapping import InvalidMapping, SubjectMapping
from hypothesis import given
from hypothesis import strategies as st

APPS = "RULE:^CN=([a-zA-Z0-9.-]+),OU=apps(,.*)?$/$1/L"


def name_of(rules: str, subject: str) -> str:
    principal = SubjectMapping.parse(rules).principal_of(subject.encode())
    assert principal.role is Role.CLIENT
    return principal.name


@pytest.mark.parametrize(
    ("rules", "subject", "name"),
    [
        (APPS, "CN=Alice,OU=apps,O=Acme\\, Inc.", "alice"),
        ("RULE:CN=([^,]+)/$1/", "CN=Alice", "Alice"),
        ("RULE:CN=([^,]+)/$1/U", "CN=Alice", "ALICE"),
        ("RULE:CN=([^,]+),OU=([^,]+)/$2.team-$1/", "CN=alice,OU=apps", "apps.team-alice"),
        ("RULE:CN=(a)?(b)/$1$2/", "CN=b", "b"),
        # The first rule that matches decides.
        ("RULE:CN=(x.*)/first/,RULE:CN=(.*)/second/", "CN=x1", "first"),
        ("RULE:CN=(x.*)/first/,RULE:CN=(.*)/second/", "CN=y1", "second"),
        # Commas are of the pattern, up to its slash, and a slash is escaped.
        ("RULE:CN=([a-z]+),O=a\\/b/$1/", "CN=alice,O=a/b", "alice"),
    ],
)
def test_a_rule_makes_a_name_of_the_whole_subject(rules: str, subject: str, name: str) -> None:
    assert name_of(rules, subject) == name


@pytest.mark.parametrize(
    "subject",
    [
        "CN=alice",
        "CN=alice,OU=apps2",
        "O=x,CN=alice,OU=apps",
        "CN=alice,OU=apps\nO=x",
        # A comma in a value is escaped, so that no value makes another attribute.
        "CN=mallory\\,OU=apps,OU=guests",
        "CN=alice\\,OU=apps",
    ],
)
def test_a_subject_that_no_rule_matches_whole_is_nobody(subject: str) -> None:
    with pytest.raises(UnknownIdentity) as refused:
        name_of(APPS, subject)
    assert str(refused.value) == f"no rule of --subject-mapping matches its subject {subject!r}"


@pytest.mark.parametrize(
    "subject", ["CN=", "CN=a b", "CN=a/b", "CN=broker/1", "CN=\\C3\\BC", f"CN={'a' * 201}"]
)
def test_what_is_no_name_of_a_client_is_refused_and_no_later_rule_is_tried(subject: str) -> None:
    with pytest.raises(UnknownIdentity, match="the name of a client has 1 to 200 characters"):
        name_of("RULE:CN=(.*)/$1/,RULE:.*/somebody/", subject)


@pytest.mark.parametrize("subject", ["CN=alice,OU=guests", "O=x,CN=alice"])
def test_a_rule_without_anchors_is_for_the_whole_subject_too(subject: str) -> None:
    with pytest.raises(UnknownIdentity, match="no rule of --subject-mapping matches"):
        name_of("RULE:CN=([a-z]+)/$1/", subject)


def test_a_certificate_without_a_subject_is_nobody() -> None:
    with pytest.raises(UnknownIdentity, match="neither a SPIFFE URI nor a subject"):
        name_of("RULE:.*/somebody/", "")


def test_a_subject_without_end_is_refused_before_it_is_matched() -> None:
    with pytest.raises(UnknownIdentity, match="its subject has 5003 bytes, and may have 4096"):
        name_of("RULE:.*/somebody/", "CN=" + "a" * 5_000)


@pytest.mark.parametrize(
    ("rules", "why"),
    [
        ("", "is no rule of the form RULE:pattern/replacement/"),
        ("DEFAULT", "DEFAULT is none"),
        (f"{APPS},DEFAULT", "'DEFAULT' is no rule"),
        ("RULE:CN=(.*)/$1", "is no rule of the form"),
        ("RULE:/x/", "is no rule of the form"),
        (f"{APPS};{APPS}", "rules are separated by commas"),
        (f"{APPS},", "'' is no rule"),
        ("RULE:CN=(.*/$1/", "is no RE2 expression"),
        ("RULE:(?=x)/x/", "is no RE2 expression"),
        ("RULE:CN=(.*)/$2/", "$2 is no group of 'CN=(.*)', which has 1"),
        ("RULE:CN=(.*)/client $1/", "has ' '"),
        ("RULE:CN=(.*)/$x/", "has '$'"),
        (",".join(["RULE:x/y/"] * 33), "there are more than 32 rules"),
        ("RULE:" + "x" * 9_000 + "/y/", "they may have 8192"),
    ],
)
def test_rules_that_cannot_be_used_are_refused_when_the_process_starts(rules: str, why: str) -> None:
    with pytest.raises(InvalidMapping) as refused:
        SubjectMapping.parse(rules)
    assert why in str(refused.value)


@pytest.mark.parametrize(
    "uris",
    [
        ("spiffe://other/client/alice",),
        ("spiffe://hightide/root/1",),
        ("SPIFFE://hightide/client/alice",),
        ("spiffe://hightide/client/alice", "spiffe://hightide/client/bob"),
        ("https://issuer/alice", "spiffe://hightide/client/alice"),
    ],
)
def test_a_certificate_with_a_spiffe_uri_is_never_known_by_its_subject(uris: tuple[str, ...]) -> None:
    told = {"peer_uri": [uri.encode() for uri in uris], "x509_subject": [b"CN=alice,OU=apps"]}
    if len(uris) == 1 and uris[0].startswith("spiffe:"):
        told["peer_spiffe_id"] = told["peer_uri"]
    with pytest.raises(UnknownIdentity):
        caller_of(told, "hightide", SubjectMapping.parse(APPS))


def test_a_certificate_with_other_names_is_known_by_its_subject_if_there_are_rules() -> None:
    told = {"peer_uri": [b"https://issuer/alice"], "x509_subject": [b"CN=alice,OU=apps"]}
    assert caller_of(told, "hightide", SubjectMapping.parse(APPS)) == Principal(Role.CLIENT, "alice")
    with pytest.raises(UnknownIdentity, match="it has https://issuer/alice and needs one URI"):
        caller_of(told, "hightide")


@given(st.binary(max_size=300))
def test_whatever_the_subject_is_the_caller_is_a_client_or_nobody(subject: bytes) -> None:
    mapping = SubjectMapping.parse(f"{APPS},RULE:(.*)/$1/")
    try:
        caller = mapping.principal_of(subject)
    except UnknownIdentity:
        return
    assert caller.role is Role.CLIENT
    assert set(caller.name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
