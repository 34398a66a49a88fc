"""The owner of a data directory: its lock, `meta.json`, and the mark of a clean shutdown."""

from __future__ import annotations

import errno
import json
import logging
from collections.abc import Mapping
from typing import Final, NamedTuple
from uuid import uuid4

from hightide.batch.checksum import crc32c

from hightide_broker.storage.errors import CorruptFile, DirectoryLocked, WrongBroker, WrongCluster
from hightide_broker.storage.files.files import Files
from hightide_broker.storage.files.sealed_file import read_file, write_whole

__all__ = [
    "DirectoryLock",
    "check_identity",
    "cluster_id_on_disk",
    "mark_clean",
    "refuse_others",
    "stamp_identity",
    "take_clean_mark",
    "whose",
]

log = logging.getLogger(__name__)

_LOCK_NAME: Final = ".lock"
_CLEAN_NAME: Final = ".clean"
_META_NAME: Final = "meta.json"
_VERSION: Final = 1


class DirectoryLock:
    """Keeps a second process out of a data directory, for as long as this one has it or lives."""

    def __init__(self, files: Files, directory: str) -> None:
        path = f"{directory}/{_LOCK_NAME}"
        self._files = files
        try:
            self._fd = files.lock(path)
        except BlockingIOError as error:
            raise DirectoryLocked(
                f"data directory {directory} is in use by process {error.strerror or 'unknown'}; "
                "stop that broker, or give this one another --data-dir"
            ) from error

    def release(self) -> None:
        """Unlock it for other processes; once."""
        self._files.unlock(self._fd)


def is_there(files: Files, directory: str) -> bool:
    """Whether the data directory is still where it was. Called when a file in it is not. Raises OSError."""
    return files.exists(f"{directory}/{_META_NAME}")


def check_identity(files: Files, directory: str, cluster_id: str, broker_id: int) -> bool:
    """Check that the directory is this broker's, or nobody's yet: True then. Changes nothing, so that it can
    be asked of all directories before any is written to.

    Raises WrongCluster, WrongBroker, CorruptFile, OSError.
    """
    path = f"{directory}/{_META_NAME}"
    if not files.exists(path):
        return True
    _check_meta(read_file(files, path), path, directory, cluster_id, broker_id)
    return False


class DirectoryOwner(NamedTuple):
    """The owner of a data directory."""

    is_ours: bool
    refusal: WrongCluster | WrongBroker | None = None
    """The reason why it is another broker's."""


def whose(directory: str, cluster_id: str, broker_id: int, files: Files) -> DirectoryOwner:
    """Whether a data directory is this broker's, nobody's, or another's; nobody's where it cannot be read,
    since opening it says why. Changes nothing. Called of all of a broker before any is written to. Raises
    CorruptFile.
    """
    try:
        return DirectoryOwner(not check_identity(files, directory, cluster_id, broker_id))
    except (WrongCluster, WrongBroker) as refusal:
        return DirectoryOwner(False, refusal)
    except OSError:
        return DirectoryOwner(False)


def refuse_others(owners: Mapping[str, DirectoryOwner], cluster_id: str, broker_id: int) -> None:
    """Check what `whose` says of all data directories of a broker, by path. Raises WrongCluster, WrongBroker,
    which also name a directory that is this broker's."""
    ours = next((directory for directory, owner in owners.items() if owner.is_ours), None)
    for owner in owners.values():
        if owner.refusal is None:
            continue
        if ours is None:
            raise owner.refusal
        raise type(owner.refusal)(
            f"{owner.refusal}; {ours} is of cluster {cluster_id} and broker {broker_id}"
        )


def cluster_id_on_disk(directory: str, files: Files) -> str | None:
    """The cluster that a data directory belongs to; None where it is new, or cannot be read: opening it says
    why. Called before a broker joins a cluster, which none may be made for that has data of one. Raises
    CorruptFile.
    """
    path = f"{directory}/{_META_NAME}"
    try:
        return _read_meta(read_file(files, path), path, directory)[0] if files.exists(path) else None
    except OSError:
        return None


def stamp_identity(files: Files, directory: str, cluster_id: str, broker_id: int) -> str:
    """Make a directory that passed `check_identity` this broker's; give the id of this life of it.

    Raises OSError; on a full disk only where the directory is new, since one that is known can be read from.
    """
    path = f"{directory}/{_META_NAME}"
    boot_id = uuid4().hex
    meta = {"version": _VERSION, "cluster_id": cluster_id, "broker_id": broker_id, "boot_id": boot_id}
    try:
        write_whole(files, path, json.dumps(meta).encode() + b"\n", durable=True)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT) or not files.exists(path):
            raise
        log.warning("%s keeps the boot id of an earlier life: %s", path, error)
    return boot_id


def _read_meta(data: bytes, path: str, directory: str) -> tuple[str, int]:
    """The cluster and the broker that the directory belongs to. Raises CorruptFile."""
    try:
        meta = json.loads(data)
        version, cluster_id, broker_id = meta["version"], str(meta["cluster_id"]), meta["broker_id"]
    except (ValueError, LookupError, TypeError) as error:
        raise CorruptFile(f"{path} is damaged ({error}); restore it, or move {directory} away") from error
    if version != _VERSION:
        raise CorruptFile(f"{path} has version {version}; this broker reads version {_VERSION}")
    return cluster_id, broker_id


def _check_meta(data: bytes, path: str, directory: str, cluster_id: str, broker_id: int) -> None:
    found_cluster, found_broker = _read_meta(data, path, directory)
    if found_cluster != cluster_id:
        raise WrongCluster(
            f"data directory {directory} belongs to cluster {found_cluster}, this broker joins cluster "
            f"{cluster_id}; check --zookeeper, or give an empty --data-dir"
        )
    if found_broker != broker_id:
        raise WrongBroker(
            f"data directory {directory} belongs to broker {found_broker}, this is broker {broker_id}; "
            "check --broker-id and --data-dir"
        )


def mark_clean(files: Files, directory: str, checkpoints: bytes) -> None:
    """Leave the mark of a clean shutdown, which names the checkpoints that it belongs to. Raises OSError."""
    mark = {"version": _VERSION, "checkpoints_crc": crc32c(checkpoints)}
    write_whole(files, f"{directory}/{_CLEAN_NAME}", json.dumps(mark).encode() + b"\n", durable=True)


def take_clean_mark(files: Files, directory: str, checkpoints: bytes) -> bool:
    """Whether the last process shut down cleanly and left these checkpoints; the mark is gone then. Raises
    OSError."""
    path = f"{directory}/{_CLEAN_NAME}"
    if not files.exists(path):
        return False
    try:
        mark = json.loads(read_file(files, path))
        is_ours = bool(mark["version"] == _VERSION and mark["checkpoints_crc"] == crc32c(checkpoints))
    except (ValueError, LookupError, TypeError):
        is_ours = False
    files.remove(path)
    files.sync_directory(directory)
    return is_ours
