"""The cluster on which the pages' blocks run: that of `hightide dev up`, for a user of its own."""

import os
import re
import subprocess
import sys
from pathlib import Path

from hightide import Admin
from hightide_local import detached
from hightide_local.processes.spark_java import SHORT_LIVED, spark_java_home

_SHOWN = re.compile(r"\b(?:127\.0\.0\.1|localhost):(\d{4})\b")


class DocsCluster:
    """3 brokers, 2 controllers and a coordinator below a home directory that belongs to the tests."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.directory = home / "state" / "hightide" / "dev"

    @property
    def bootstrap(self) -> str:
        return self.cluster.bootstrap

    def start(self) -> None:
        """Start it, or what a page has stopped of it. Topics and groups of earlier pages go."""
        # Another process starts it, as for a reader: a child of this one, once killed, would stay a zombie.
        subprocess.run(
            [sys.executable, "-m", "hightide_cli.main", "dev", "up"],
            env=self.environment(),
            check=True,
            timeout=120,
            stdout=subprocess.DEVNULL,
        )
        self.cluster = detached.find(self.directory)
        with Admin(self.cluster.bootstrap) as admin:
            for group in admin.list_groups():
                # One with members belongs to a page that failed.
                if group.member_count == 0:
                    admin.delete_group(group.group)
            # As the controller knows them: one broker may still list what an earlier page has deleted.
            for topic in admin.describe_topics():
                admin.delete_topic(topic.name)

    def stop(self) -> None:
        detached.down(self.directory)

    def environment(self) -> dict[str, str]:
        """That of a user whose shell has the virtual environment active, and who has no other cluster."""
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("HIGHTIDE_", "OTEL_"))
        }
        return {
            **kept,
            "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")]),
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "JAVA_HOME": str(spark_java_home()),
            "SPARK_SUBMIT_OPTS": SHORT_LIVED,
            "COLUMNS": "120",
            "TERM": "dumb",
        }

    def substitute(self, text: str) -> str:
        """The text with this cluster's addresses in the place of those that the pages show."""
        places = self._places()
        return _SHOWN.sub(lambda shown: places.get(int(shown[1]), shown[0]), text)

    def _places(self) -> dict[int, str]:
        places = {2181: self.cluster.zookeeper}
        for first, addresses in (
            (9092, self.cluster.brokers),
            (9192, self.cluster.controllers),
            (9292, self.cluster.coordinators),
        ):
            places.update({first + number - 1: address for number, address in addresses.items()})
        return places
