"""Who a caller is, by its certificate; what names nobody of this cluster is nobody."""

import pytest
from hightide_runtime.access.callers import UnknownIdentity
from hightide_runtime.access.identities import caller_of, check_own_identity, trust_domain_of
from hightide_runtime.access.principals import Principal, Role


def authenticated(*uris: str) -> dict[str, list[bytes]]:
    """As gRPC tells it: the SPIFFE id is there only if it is the only URI."""
    told = {"peer_uri": [uri.encode() for uri in uris], "x509_common_name": [b"broker/1"]}
    return told | ({"peer_spiffe_id": told["peer_uri"]} if len(uris) == 1 else {})


@pytest.mark.parametrize(
    ("uri", "caller"),
    [
        ("spiffe://hightide/broker/1", Principal(Role.BROKER, "1")),
        ("spiffe://hightide/controller/2", Principal(Role.CONTROLLER, "2")),
        ("spiffe://hightide/coordinator/3", Principal(Role.COORDINATOR, "3")),
        ("spiffe://hightide/client/alice.b-c_d", Principal(Role.CLIENT, "alice.b-c_d")),
    ],
)
def test_a_caller_is_whom_its_certificate_names(uri: str, caller: Principal) -> None:
    assert caller_of(authenticated(uri), "hightide") == caller
    assert str(caller) == uri.removeprefix("spiffe://hightide/")


@pytest.mark.parametrize(
    "uris",
    [
        (),
        ("spiffe://hightide/broker/1", "spiffe://hightide/broker/2"),
        ("spiffe://hightide/broker",),
        ("spiffe://hightide/broker/1/2",),
        ("spiffe://hightide/broker/1\n",),
        ("spiffe://hightide/broker/",),
        ("spiffe://hightide/root/1",),
        ("spiffe://hightide/anonymous/1",),
        ("spiffe://hightide/BROKER/1",),
        ("https://hightide/broker/1",),
        ("spiffe://other/broker/1",),
        ("spiffe://hightide.evil/broker/1",),
        ("spiffe://evil/hightide/broker/1",),
    ],
)
def test_a_certificate_that_does_not_name_one_caller_of_this_cluster_names_nobody(
    uris: tuple[str, ...],
) -> None:
    with pytest.raises(UnknownIdentity):
        caller_of(authenticated(*uris), "hightide")


def test_the_sentence_says_what_the_certificate_has_and_what_it_needs() -> None:
    with pytest.raises(UnknownIdentity, match=r"^it has no URI and needs one URI of the form spiffe://"):
        caller_of({"x509_common_name": [b"broker/1"]}, "hightide")
    with pytest.raises(UnknownIdentity, match=r"^it is of the cluster 'other', and this is 'hightide'$"):
        caller_of(authenticated("spiffe://other/broker/1"), "hightide")


def test_the_cluster_of_a_process_is_the_one_in_its_own_certificate() -> None:
    assert trust_domain_of(["spiffe://tides.example.org/broker/1"]) == "tides.example.org"
    for uris in ([], ["spiffe://a/broker/1", "spiffe://b/broker/1"], ["https://a/broker/1"]):
        with pytest.raises(UnknownIdentity):
            trust_domain_of(uris)


def test_a_process_has_its_own_certificate_and_not_that_of_another() -> None:
    check_own_identity(["spiffe://hightide/broker/12"], "broker", 12)
    for uri in (
        "spiffe://hightide/broker/1",
        "spiffe://hightide/controller/12",
        "spiffe://hightide/client/12",
    ):
        with pytest.raises(
            UnknownIdentity, match=f"it has {uri}, and this process is spiffe://hightide/broker/12"
        ):
            check_own_identity([uri], "broker", 12)
