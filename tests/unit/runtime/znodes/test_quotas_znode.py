"""/config/quotas: what is written is read again, and nonsense is refused in words."""

import json

import pytest
from hightide_runtime.znodes.content import ZnodeGarbage
from hightide_runtime.znodes.quota import Quota
from hightide_runtime.znodes.quotas_znode import PRINCIPALS_MAX, QuotasZnode, is_quota_principal

EXAMPLES = {
    "client/alice": Quota(produce_bytes_per_s=1_000_000, fetch_bytes_per_s=2**63 - 1),
    "client/*": Quota(mutations_per_s=10, calls_max=100, connections_max=5),
    "anonymous": Quota(calls_max=1),
}


def test_quotas_are_read_as_they_were_written() -> None:
    znode = QuotasZnode(EXAMPLES)
    assert QuotasZnode.decode(znode.encode()) == znode
    assert json.loads(znode.encode()) == {
        "version": 1,
        "quotas": {
            "anonymous": {"calls_max": 1},
            "client/*": {"mutations_per_s": 10, "calls_max": 100, "connections_max": 5},
            "client/alice": {"produce_bytes_per_s": 1_000_000, "fetch_bytes_per_s": 2**63 - 1},
        },
    }
    assert QuotasZnode.path() == "/config/quotas"


@pytest.mark.parametrize(
    ("quotas", "complaint"),
    [
        ([], "field quotas is not an object"),
        ({"alice": {}}, "'alice' cannot have a quota; name client/<name>, client/\\* or anonymous"),
        ({"broker/1": {}}, "'broker/1' cannot have a quota"),
        ({"client/": {}}, "'client/' cannot have a quota"),
        ({"client/a b": {}}, "'client/a b' cannot have a quota"),
        ({"client/" + "a" * 250: {}}, "cannot have a quota"),
        ({"client/a": 5}, "the quota of client/a is not an object"),
        ({"client/a": {"bytes": 5}}, "the quota of client/a has 'bytes', which is no limit"),
        ({"client/a": {"calls_max": 0}}, "calls_max of client/a is not a whole number from 1 to"),
        ({"client/a": {"calls_max": 1.5}}, "calls_max of client/a is not a whole number from 1 to"),
        ({"client/a": {"calls_max": True}}, "calls_max of client/a is not a whole number from 1 to"),
        ({"client/a": {"calls_max": 2**63}}, "calls_max of client/a is not a whole number from 1 to"),
        ({f"client/{n}": {} for n in range(PRINCIPALS_MAX + 1)}, "2001 principals have quotas; at most 2000"),
    ],
)
def test_what_makes_no_sense_is_refused_in_words(quotas: object, complaint: str) -> None:
    with pytest.raises(ZnodeGarbage, match=complaint):
        QuotasZnode.decode(json.dumps({"version": 1, "quotas": quotas}).encode())


@pytest.mark.parametrize("data", [b"", b"[]", b"{}", b'{"version":2,"quotas":{}}', b'{"quotas":{}}', b"\xff"])
def test_content_of_another_form_is_refused(data: bytes) -> None:
    with pytest.raises(ZnodeGarbage):
        QuotasZnode.decode(data)


def test_as_many_principals_as_may_be_fit_into_a_znode() -> None:
    quota = Quota(*[2**63 - 1] * 5)
    full = {f"client/{number:0>249}": quota for number in range(PRINCIPALS_MAX)}
    assert len(QuotasZnode(full).encode()) < 1_000_000


def test_clients_their_default_and_those_who_are_anonymous_can_have_a_quota_and_nobody_else() -> None:
    assert all(map(is_quota_principal, EXAMPLES))
    assert not any(map(is_quota_principal, ("broker/1", "controller/1", "anonymous/x", "client", "")))
