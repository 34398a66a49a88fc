"""What a process shows ZooKeeper and writes into ACLs, and the files it comes from."""

import hashlib
import re
from base64 import b64encode
from pathlib import Path

import pytest
from hightide_runtime.errors import StartupError
from hightide_runtime.znodes.cluster_znodes import PARENTS
from hightide_runtime.znodes.paths import TOP_LEVEL
from hightide_runtime.zookeeper.acls import (
    ALL,
    ANYONE,
    OPEN_ACL,
    AclEntry,
    Identity,
    acl_of,
    encode_acl,
    is_open,
)
from hightide_runtime.zookeeper.operations import Create
from hightide_runtime.zookeeper.protocol import Authenticate, MultiRequest
from hightide_runtime.zookeeper.security import (
    CREDENTIALS_MAX,
    Credential,
    ZnodeAcl,
    ZooKeeperSecurity,
    read_credentials,
)
from hightide_runtime.zookeeper.tls_socket import ZooKeeperTls
from kazoo.security import make_digest_acl

ROOT = Path(__file__).resolve().parents[4]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "credentials"
    path.write_text("hightide:secret:with colon\n")
    path.chmod(0o600)
    return path


def test_an_identity_is_what_zookeeper_makes_of_the_credentials() -> None:
    known = make_digest_acl("hightide", "secret", all=True)
    identity = Credential("hightide", "secret").identity
    assert (known.perms, tuple(known.id)) == (ALL, tuple(identity))
    digest = hashlib.sha1(b"hightide:secret", usedforsecurity=False).digest()
    assert identity == Identity("digest", f"hightide:{b64encode(digest).decode()}")


def test_a_password_may_have_colons_and_is_in_no_text_of_the_credentials(file: Path) -> None:
    (found,) = read_credentials(file)
    assert (found.user, found.password) == ("hightide", "secret:with colon")
    assert "secret" not in repr(found)
    assert "secret" not in repr(Authenticate(found.text))
    assert "secret" not in repr(ZooKeeperSecurity.of(None, file))


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660, 0o700 | 0o007])
def test_a_file_that_others_may_read_is_refused_with_the_command_that_mends_it(file: Path, mode: int) -> None:
    file.chmod(mode)
    with pytest.raises(StartupError, match=f"chmod 600 {file}"):
        read_credentials(file)


@pytest.mark.parametrize("content", ["", "\n\n", "a:b\n" * (CREDENTIALS_MAX + 1), "x:" + "y" * 5000])
def test_a_file_without_credentials_or_with_too_many_is_refused(file: Path, content: str) -> None:
    file.write_text(content)
    with pytest.raises(StartupError, match=f"{file} has to hold"):
        read_credentials(file)


@pytest.mark.parametrize("line", ["hightide", ":secret", "hightide:"])
def test_a_line_that_is_no_user_and_password_is_named_by_its_number_and_not_shown(
    file: Path, line: str
) -> None:
    file.write_text(f"good:one\n{line}\n")
    with pytest.raises(StartupError, match="line 2 ") as raised:
        read_credentials(file)
    assert "secret" not in str(raised.value)


def test_a_file_that_is_missing_or_no_text_is_named(tmp_path: Path, file: Path) -> None:
    with pytest.raises(StartupError, match=f"{tmp_path}/none cannot be read: No such file"):
        read_credentials(tmp_path / "none")
    file.write_bytes(b"\xff\xfe")
    with pytest.raises(StartupError, match="no UTF-8 text"):
        read_credentials(file)


def test_tls_files_are_checked_when_the_process_starts(tmp_path: Path) -> None:
    with pytest.raises(StartupError, match=f"{tmp_path}/ca.crt, for TLS with ZooKeeper, cannot be read"):
        ZooKeeperSecurity.of(ZooKeeperTls(tmp_path / "ca.crt"), None)
    (tmp_path / "ca.crt").write_text("no certificate")
    with pytest.raises(StartupError, match="TLS with ZooKeeper cannot use"):
        ZooKeeperSecurity.of(ZooKeeperTls(tmp_path / "ca.crt"), None)


def test_the_acl_names_all_credentials_and_with_open_anyone_too(file: Path) -> None:
    file.write_text("hightide:old\nhightide:new\n")
    old, new = (AclEntry(ALL, Credential("hightide", each).identity) for each in ("old", "new"))
    closed = ZooKeeperSecurity.of(None, file, ZnodeAcl.CREATOR).znode_acl
    assert set(closed) == {old, new}
    assert not is_open(closed)
    opened = ZooKeeperSecurity.of(None, file).znode_acl
    assert set(opened) == {AclEntry(ALL, ANYONE), old, new}
    assert is_open(opened)


def test_without_credentials_the_acl_is_the_open_one() -> None:
    assert ZooKeeperSecurity().znode_acl == OPEN_ACL


@pytest.mark.parametrize(("permissions", "opens"), [(1, False), (2, True), (4, True), (8, True), (16, True)])
def test_anyone_may_read_a_znode_that_is_not_open_but_do_nothing_else(permissions: int, opens: bool) -> None:
    assert is_open(acl_of([(ALL, ("digest", "a:b")), (permissions, ("world", "anyone"))])) is opens


def test_lists_of_the_same_entries_are_equal_in_whatever_order_they_come() -> None:
    entries = [(ALL, ("digest", "b:2")), (1, ("world", "anyone")), (ALL, ("digest", "a:1"))]
    assert acl_of(entries) == acl_of(reversed(entries))


def test_a_multi_creates_with_the_acl_that_it_is_given() -> None:
    acl = encode_acl(acl_of([(ALL, ("digest", "hightide:hash"))]))
    create = Create("/a", b"")
    assert acl in MultiRequest([create], encoded_acl=acl).serialize()
    assert encode_acl(OPEN_ACL) in MultiRequest([create]).serialize()


def test_the_top_level_has_all_znodes_that_are_documented() -> None:
    """`hightide zk secure` leaves all else alone."""
    documented = re.findall(r"^\| `(/[^/`]+)", (ROOT / "docs/reference/znodes.md").read_text(), re.MULTILINE)
    assert set(documented) == TOP_LEVEL
    assert {"/" + path.split("/")[1] for path in PARENTS} <= TOP_LEVEL
