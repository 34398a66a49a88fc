"""Finds ZooKeeper's jars: a release that the user names, what Spark ships, else a Maven repository."""

import os
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Final

from platformdirs import user_cache_path

from hightide_local.errors import ClusterError, RepositoryError
from hightide_local.jars.pinned_jars import MAVEN_REPOSITORY, PinnedJar, PinnedJars, jars_in

ZOOKEEPER_HOME: Final = "HIGHTIDE_ZOOKEEPER_HOME"
_SERVER: Final = "zookeeper-3"

#: The server, TLS, what it cannot start without, and the smallest logger. ZooKeeper's own pom also asks for
#: OpenSSL of five platforms, its admin server and a command line, which nothing here needs.
ZOOKEEPER: Final = PinnedJars(
    "zookeeper-3.9.5",
    "Apache ZooKeeper 3.9.5",
    (
        PinnedJar(
            "org.apache.zookeeper:zookeeper:3.9.5",
            1_367_207,
            "936d025db1a85f085edea25048c3f5b3de5fc29329c371a10925e3b78b0b38a0",
        ),
        PinnedJar(
            "org.apache.zookeeper:zookeeper-jute:3.9.5",
            260_263,
            "abcbc7f9d6c493daa118da6fa3061a201e2c521217526e8535adfb56b629e52a",
        ),
        PinnedJar(
            "io.netty:netty-buffer:4.1.130.Final",
            354_531,
            "00a522b67ea35cb7b4dd9cf27f85c6c58f5e306785aa045302e5f6b2d4944a87",
        ),
        PinnedJar(
            "io.netty:netty-codec:4.1.130.Final",
            357_588,
            "52636bc29bd62120b97bbe5d1d21eab9b1cb2bef8efbb54d2221c5f3fa08d8cd",
        ),
        PinnedJar(
            "io.netty:netty-common:4.1.130.Final",
            724_544,
            "53921f28dd5a352b1bed0e1cbcc54d013dc60ffebeae9b2b1e53eabef317e581",
        ),
        PinnedJar(
            "io.netty:netty-handler:4.1.130.Final",
            580_945,
            "98c78ec187ca30a4b9775bf6f632f5c9929db6bf06a60e6971f945813880ca0f",
        ),
        PinnedJar(
            "io.netty:netty-resolver:4.1.130.Final",
            37_904,
            "48c5b218a89d184e1b601d46433957f515fcefdb4464182b1348bce4f5a18f35",
        ),
        PinnedJar(
            "io.netty:netty-transport:4.1.130.Final",
            521_591,
            "1bf573266d271f856705a9984d25449c56a1d73c02a16af12033ceccfe555dbb",
        ),
        PinnedJar(
            "io.netty:netty-transport-classes-epoll:4.1.130.Final",
            147_725,
            "1c352508d70aca1ccc3068daac907ad1e9d8dc68b07148d57426730bf0d0c8b6",
        ),
        PinnedJar(
            "io.netty:netty-transport-native-unix-common:4.1.130.Final",
            44_325,
            "cf5efc4168597d7cd14695b469418cac2a1134533f9a0c82ef0538d796fd39e1",
        ),
        PinnedJar(
            "io.dropwizard.metrics:metrics-core:4.1.12.1",
            105_355,
            "cec34936faa625039f4e46123eccaa10a9eb9d9a40c6075830cd81330e259cf9",
        ),
        PinnedJar(
            "org.xerial.snappy:snappy-java:1.1.10.5",
            2_299_797,
            "0f3f1857ed33116583f480b4df5c0218836c47bfbc9c6221c0d73f356decf37b",
        ),
        PinnedJar(
            "org.slf4j:slf4j-api:2.0.13",
            68_605,
            "e7c2a48e8515ba1f49fa637d57b4e2f590b3f5bd97407ac699c3aa5efb1204a9",
        ),
        PinnedJar(
            "org.slf4j:slf4j-simple:2.0.13",
            15_703,
            "3153fe1d689cffb94f1530b58470c306685ba68844de8857116e3b6ebb81d9f7",
        ),
    ),
)


def default_cache() -> Path:
    """Where downloaded jars are kept: platformdirs' user_cache_dir."""
    return user_cache_path("hightide", appauthor=False) / "jars"


def zookeeper_class_path(environment: Mapping[str, str] | None = None, cache: Path | None = None) -> str:
    """The class path with the jars of ZooKeeper and its dependencies.

    They come from HIGHTIDE_ZOOKEEPER_HOME, the folder of a release of Apache ZooKeeper or of its jars alone;
    else from pyspark, if it is installed; else from the cache, into which they are downloaded once. Raises
    ClusterError: if the named folder has no ZooKeeper, since no other one is what its user wants, or if there
    is none at all.
    """
    environment = os.environ if environment is None else environment
    home = environment.get(ZOOKEEPER_HOME)
    if home:
        return os.pathsep.join(map(str, _jars_of_release(Path(home))))
    return os.pathsep.join(map(str, _jars_of_spark() or _downloaded(environment, cache or default_cache())))


def _jars_of_release(home: Path) -> list[Path]:
    """The jars of a release, which are in lib/, and its folder conf/, without which its logger tells all."""
    jars = sorted(home.glob("lib/*.jar")) or sorted(home.glob("*.jar"))
    if not any(jar.name.startswith(_SERVER) for jar in jars):
        raise ClusterError(
            f"{ZOOKEEPER_HOME} is {home}, but there is no {_SERVER}*.jar in it or in its lib/; name the "
            f"folder of a release of Apache ZooKeeper 3.9, or unset {ZOOKEEPER_HOME}"
        )
    return [*([home / "conf"] if (home / "conf").is_dir() else []), *jars]


def _jars_of_spark() -> list[Path]:
    """Only ZooKeeper's of pyspark's 400 jars, since a JVM opens every jar of its class path when it looks for
    a class. None without pyspark, or if it ships no ZooKeeper: the client of Spark Connect has no jars."""
    spec = find_spec("pyspark")
    if spec is None or not spec.submodule_search_locations:
        return []
    jars = Path(spec.submodule_search_locations[0], "jars")
    wanted = ("zookeeper", "slf4j-api", "log4j-", "netty-", "metrics-core", "snappy-java", "commons-io")
    # Netty's own libraries for sockets are for one machine each; its TLS needs what they have in common.
    found = sorted(
        jar
        for jar in jars.glob("*.jar")
        if jar.name.startswith(wanted) and ("-native-" not in jar.name or "-unix-common" in jar.name)
    )
    return found if any(jar.name.startswith(_SERVER) for jar in found) else []


def _downloaded(environment: Mapping[str, str], cache: Path) -> list[Path]:
    try:
        return jars_in(cache, ZOOKEEPER, environment)
    except RepositoryError as error:
        raise RepositoryError(
            f"no ZooKeeper found: {error}; name a Maven repository that this machine reaches in "
            f"{MAVEN_REPOSITORY}, or the folder of a release of Apache ZooKeeper 3.9 in {ZOOKEEPER_HOME}, or "
            "`pip install 'hightide[local]'`, whose pyspark has one"
        ) from error
