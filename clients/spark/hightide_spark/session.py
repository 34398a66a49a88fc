"""Makes a Spark session with settings that the Hightide source and sink need."""

import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from hightide_spark.save_mode import append_by_default

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EVERYWHERE = {
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
#: For sessions that run in this process alone: only loopback addresses are listened on, and a shuffle has
#: fewer than Spark's 200 tasks.
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
    """Return the active session as it is, else make one. In both, a write with the format `hightide` and
    without a mode appends (`hightide_spark.save_mode`).

    Programs call it once at their start. `master` is Spark's; if it is None, the site's configuration decides
    (spark-submit, spark-defaults.conf), else `local[*]`. `remote` is the address of a Spark Connect server
    (`sc://…`), or such as `local[2]` for one in this process. `defaults` are settings that apply where the
    site's configuration has none.

    Sets PYSPARK_PYTHON to this interpreter, unless it is set, since workers need the same packages. Plain
    `spark-submit` starts its JVM before this program, so PYSPARK_PYTHON must be set outside for it.
    """
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    active = SparkSession.getActiveSession()
    if active is not None:
        append_by_default(active)
        return active
    builder = SparkSession.builder.appName(app_name)
    if remote is not None:
        builder = builder.remote(remote)
    else:
        master = master or _site_setting("spark.master") or "local[*]"
        builder = builder.master(master)
    for key, value in session_settings(remote or master or "", defaults or {}, _site_setting).items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    append_by_default(session)
    return session


def session_settings(
    master: str, defaults: Mapping[str, str], site_setting: Callable[[str], str | None]
) -> dict[str, str]:
    """The settings of a new session: the caller's `defaults` before ours, each only if the site's
    configuration has none. `site_setting` returns the site's value of a setting. `spark_session` and tests
    call it."""
    ours = {**_EVERYWHERE, **(_LOCAL if master.startswith("local") else {}), **defaults}
    if master.startswith("sc://"):
        return ours  # There is no JVM here to ask, and each session of a server has its own settings.
    return {key: value for key, value in ours.items() if site_setting(key) is None}


def _site_setting(key: str) -> str | None:
    """The setting of spark-submit or spark-defaults.conf. The question starts the JVM, which is needed
    anyway."""
    from pyspark import SparkContext

    return SparkContext.getSystemProperty(key)
