"""A Spark session with which the Hightide source and sink work from the first line on."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
#: Of sessions that run in this process alone: nothing listens beyond loopback, and a shuffle is not cut into
#: 200 tasks for a few cores.
_LOCAL = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": "4",
}


def spark_session(
    app_name: str,
    *,
    master: str | None = None,
    defaults: Mapping[str, str] | None = None,
    remote: str | None = None,
) -> "SparkSession":
    """The active session, else a new one.

    Programs call it once at their beginning. `master` as for Spark; None takes the site's (spark-submit,
    spark-defaults.conf), else `local[*]`. `remote` is the address of a Spark Connect server (`sc://…`), or
    `local[2]` and the like for one in this process. `defaults` are settings for where the site has none of
    its own: those of the site (spark-submit's --conf, spark-defaults.conf) win over them. A session that is
    active already is returned as it is.

    Unless it is set, PYSPARK_PYTHON becomes this interpreter: workers have to find the same packages. Plain
    `spark-submit` starts its JVM before this program, so there PYSPARK_PYTHON has to be set outside.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    builder = SparkSession.builder.appName(app_name)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        master = master or _site_setting("spark.master") or "local[*]"
        builder = builder.master(master)
    for key, value in session_settings(remote or master or "", defaults or {}, _site_setting).items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def session_settings(
    master: str, defaults: Mapping[str, str], site_setting: Callable[[str], str | None]
) -> dict[str, str]:
    """The settings of a new session: ours, before them the caller's, each only where the site has none."""
    ours = {**_EVERYWHERE, **(_LOCAL if master.startswith("local") else {}), **defaults}
    if master.startswith("sc://"):
        return ours  # No JVM here to ask, and each session of a server has settings of its own.
    return {key: value for key, value in ours.items() if site_setting(key) is None}


def _site_setting(key: str) -> str | None:
    """What spark-submit or spark-defaults.conf say; asking starts the JVM, which is needed next anyhow."""
    from pyspark import SparkContext

    return SparkContext.getSystemProperty(key)
