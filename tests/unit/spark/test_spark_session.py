"""Which settings a session gets, and which Java may run it."""

from pathlib import Path

import pytest
from hightide_local.errors import ClusterError
from hightide_local.processes.spark_java import home_able_to_run_spark, spark_java_home
from hightide_spark.session import session_settings

JAVA = Path("/opt/java/bin/java")


def said(version: str = "17", module: str = "jdk.incubator.vector@17.0.15") -> str:
    """What `java -XshowSettings:properties --list-modules` prints, cut short."""
    return (
        "Property settings:\n"
        "    java.home = /opt/java-17\n"
        f"    java.specification.version = {version}\n"
        "\n"
        "java.base@17.0.15\n"
        f"{module}\n"
    )


def test_the_home_is_what_java_says_not_where_it_was_found() -> None:
    assert home_able_to_run_spark(JAVA, said()) == Path("/opt/java-17")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (said("11"), "is Java 11"),
        (said("1.8"), "is Java 8"),
        (said(module="jdk.jfr@25"), "jdk.incubator.vector"),
        ("not a Java\n", "does not say which Java it is"),
    ],
)
def test_a_java_that_cannot_run_spark_is_refused_by_name_with_the_next_step(text: str, why: str) -> None:
    with pytest.raises(ClusterError, match=why) as raised:
        home_able_to_run_spark(JAVA, text)
    assert "/opt/java/bin/java" in str(raised.value)
    assert "JAVA_HOME" in str(raised.value)


def test_no_java_and_a_wrong_java_home_are_told_apart(tmp_path: Path) -> None:
    with pytest.raises(ClusterError, match="no Java found"):
        spark_java_home({"PATH": str(tmp_path)})
    with pytest.raises(ClusterError, match="there is no bin/java in it"):
        spark_java_home({"JAVA_HOME": str(tmp_path)})


def test_a_site_goes_before_the_caller_and_the_caller_before_us() -> None:
    site = {"spark.sql.session.timeZone": "Asia/Tokyo", "spark.x": "site"}
    ours = session_settings("local[2]", {"spark.x": "caller", "spark.ui.enabled": "true"}, site.get)
    assert ours["spark.ui.enabled"] == "true"
    assert ours["spark.driver.host"] == "127.0.0.1"
    assert not site.keys() & ours.keys()


@pytest.mark.parametrize("master", ["spark://host:7077", "sc://host:15002", "yarn"])
def test_only_a_local_session_is_kept_to_loopback(master: str) -> None:
    assert not any(key.startswith("spark.driver") for key in session_settings(master, {}, lambda key: None))
