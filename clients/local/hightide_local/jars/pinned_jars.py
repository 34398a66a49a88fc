"""Jars that are pinned by Maven coordinates, size and SHA-256 sum, and the folder that keeps them.

A folder whose jars are as the sums say is used again, without a repository.
"""

import hashlib
import logging
import os
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from hightide_local.errors import ClusterError, RepositoryError

if TYPE_CHECKING:
    # It takes a second to import, and is only needed for a download.
    from jgo.maven import MavenContext
    from requests import Session

#: The address of a Maven repository, for machines that do not reach Maven Central.
MAVEN_REPOSITORY: Final = "HIGHTIDE_MAVEN_REPOSITORY"
_ANSWER_S: Final = 10.0
_DOWNLOAD_S: Final = 120.0
_PART_BYTES: Final = 1 << 16
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class PinnedJar:
    """One file of a Maven repository, and what must be in it."""

    coordinates: str
    """group:artifact:version."""
    size_bytes: int
    sha256: str
    """In hexadecimal digits."""

    @property
    def file_name(self) -> str:
        """artifact-version.jar."""
        _, artifact, version = self.coordinates.split(":")
        return f"{artifact}-{version}.jar"


@dataclass(frozen=True, slots=True)
class PinnedJars:
    """Jars that belong together: all that one program needs."""

    name: str
    """The name of their folder, without what tells one set of sums from another."""
    what: str
    """What they are, for messages."""
    jars: tuple[PinnedJar, ...]

    @property
    def sums(self) -> dict[str, str]:
        """The SHA-256 sum of each jar, by file name."""
        return {jar.file_name: jar.sha256 for jar in self.jars}


def jars_in(cache: Path, jars: PinnedJars, environment: Mapping[str, str] | None = None) -> list[Path]:
    """Return the jars in the cache folder, downloaded first if they are not there.

    The repository is the one that HIGHTIDE_MAVEN_REPOSITORY names, else Maven Central. Raises
    RepositoryError if it does not give a jar, and ClusterError if a jar is not the one that was pinned, or if
    the cache cannot be written.
    """
    directory = cache / f"{jars.name}-{digest_of(jars.sums)}"
    if not directory.is_dir():
        repository = (os.environ if environment is None else environment).get(MAVEN_REPOSITORY)
        try:
            _download(jars, cache, directory, repository)
        except OSError as error:
            raise ClusterError(f"{jars.what} cannot be kept in {cache}: {error}") from error
    return checked(directory, jars.what, jars.sums)


def checked(directory: Path, what: str, sums: Mapping[str, str]) -> list[Path]:
    """Return the jars of a folder. Raises ClusterError if they are not those that are pinned."""
    wrong = departures(directory, sums)
    if wrong:
        raise ClusterError(
            f"the jars of {what} in {directory} are not those that are pinned: {wrong[0]}; "
            "delete this folder, and the next run downloads them again"
        )
    return sorted(directory.glob("*.jar"))


def departures(directory: Path, sums: Mapping[str, str]) -> list[str]:
    """Tell how the jars of a folder differ from the sums, a clause for each; none if they do not."""
    found = {path.name for path in directory.glob("*.jar")}
    missing = [f"{name} is missing" for name in sums.keys() - found]
    foreign = [f"{name} is not one of them" for name in found - sums.keys()]
    changed = [
        f"{name} has another SHA-256 sum"
        for name in sums.keys() & found
        if hashlib.sha256((directory / name).read_bytes()).hexdigest() != sums[name]
    ]
    return sorted([*missing, *foreign, *changed])


def digest_of(sums: Mapping[str, str]) -> str:
    """A name for what is pinned, so that other jars have another folder."""
    return hashlib.sha256(repr(sorted(sums.items())).encode()).hexdigest()[:12]


def _download(jars: PinnedJars, cache: Path, directory: Path, repository: str | None) -> None:
    """Download the jars into a folder beside, which gets its name when all of them are there and right."""
    import requests
    from jgo.maven import MavenContext

    context = MavenContext(remote_repos=None if repository is None else {"named": repository.rstrip("/")})
    (source,) = context.remote_repos.values()
    megabytes = sum(jar.size_bytes for jar in jars.jars) / 1e6
    _log.warning("downloading %s (%.1f MB) from %s to %s, once", jars.what, megabytes, source, directory)
    give_up_s = time.monotonic() + _DOWNLOAD_S
    cache.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="download-", dir=cache) as scratch, requests.Session() as session:
        folder = Path(scratch, "jars")
        folder.mkdir()
        for jar in jars.jars:
            try:
                content = _content_of(jar, session, f"{source}/{_place_of(jar, context)}", give_up_s)
            except requests.RequestException as error:
                raise RepositoryError(
                    f"{jar.coordinates} of {jars.what} cannot be downloaded from {source}: {_reason(error)}"
                ) from error
            if hashlib.sha256(content).hexdigest() != jar.sha256:
                raise ClusterError(
                    f"{jar.coordinates} of {source} has another SHA-256 sum than the one that is pinned, and "
                    f"was thrown away: {jar.sha256} of {jar.size_bytes} bytes was expected; name another "
                    f"repository in {MAVEN_REPOSITORY}"
                )
            (folder / jar.file_name).write_bytes(content)
        try:
            folder.rename(directory)
        except OSError:
            # Another process has downloaded them meanwhile. The caller checks its jars.
            if not directory.is_dir():
                raise


def _place_of(jar: PinnedJar, context: "MavenContext") -> str:
    """Where a repository has the jar."""
    group, artifact, version = jar.coordinates.split(":")
    component = context.project(group, artifact).at_version(version)
    return f"{component.path_prefix.as_posix()}/{component.artifact().filename}"


def _content_of(jar: PinnedJar, session: "Session", url: str, give_up_s: float) -> bytes:
    """At most one part more than the jar has, however much the repository sends. Raises RequestException."""
    import requests

    with session.get(url, stream=True, timeout=_ANSWER_S) as response:
        response.raise_for_status()
        content = bytearray()
        for part in response.iter_content(_PART_BYTES):
            content += part
            if len(content) > jar.size_bytes:
                break
            if time.monotonic() > give_up_s:
                raise requests.Timeout(f"the download has not ended within {_DOWNLOAD_S:.0f} s")
    return bytes(content)


def _reason(error: Exception) -> str:
    """The innermost cause of an error, which says it in the fewest words."""
    inner: BaseException = error
    while (cause := inner.__cause__ or inner.__context__) is not None:
        inner = cause
    return str(inner) or type(inner).__name__
