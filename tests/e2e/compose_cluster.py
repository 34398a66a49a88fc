"""The cluster of docker/compose.yaml as a test drives it: a project of its own, of which nothing is left."""

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Sequence
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
COMPOSE_FILE = ROOT / "docker" / "compose.yaml"
PROJECT = "hightide-test"
#: All of 127.0.0.0/8 is loopback on Linux, and nothing else on the machine has ports at this one.
HOST = "127.0.0.77" if sys.platform == "linux" else "127.0.0.1"
PROFILES = ("broker", "controller", "coordinator", "more-brokers", "spark", "obs")


@cache
def compose_command() -> tuple[str, ...] | None:
    """How compose is called here, v2 before v1; None where there is none."""
    for command in (("docker", "compose"), ("docker-compose",)):
        if shutil.which(command[0]) and _answers(*command, "version"):
            return command
    return None


@cache
def why_not() -> str | None:
    """Why compose cannot be tested here; None: it can."""
    if not shutil.which("docker") or not _answers("docker", "info"):
        return "no Docker engine answers"
    if compose_command() is None:
        return "there is no compose"
    for image in ("python:3.11-slim-bookworm", "zookeeper:3.9"):
        if not _answers("docker", "image", "inspect", image) and not _answers(
            "docker", "pull", "--quiet", image, timeout_s=120
        ):
            return f"the image {image} is neither here nor can it be pulled"
    return None


def _answers(*command: str, timeout_s: float = 10) -> bool:
    try:
        return subprocess.run(command, capture_output=True, timeout=timeout_s).returncode == 0
    except (OSError, subprocess.TimeoutExpired):
        return False


class ComposeCluster:
    """Runs compose, and shows each command with what it prints: `pytest -s` is the protocol of a run."""

    def __init__(self, directory: Path) -> None:
        self._override = directory / "override.yaml"
        # Where a build has no network of its own, as in nested engines, it takes the machine's.
        builds = "".join(f"  {name}: {{build: {{network: host}}}}\n" for name in _built_services())
        self._override.write_text(f"services:\n{builds}")
        #: The arguments of each compose command so far.
        self.carried_out: list[tuple[str, ...]] = []
        self._environment = {**os.environ, "HIGHTIDE_HOST": HOST, "HIGHTIDE_BIND": HOST}

    @property
    def bootstrap(self) -> str:
        """Where the first three brokers are reached from outside of the containers."""
        return ",".join(f"{HOST}:{port}" for port in (19092, 19093, 19094))

    def run(self, *arguments: str, timeout_s: float = 120, profiles: Sequence[str] = ()) -> str:
        """Run a compose command; what it printed. Fails the test where it fails."""
        command = compose_command()
        assert command is not None
        chosen = [part for profile in profiles for part in ("--profile", profile)]
        files = ["-p", PROJECT, "-f", str(COMPOSE_FILE), "-f", str(self._override)]
        printed = self._shown([*command, *files, *chosen], arguments, timeout_s)
        self.carried_out.append(arguments)
        return printed

    def docker(self, *arguments: str, timeout_s: float = 60) -> str:
        """Run a command of the engine; what it printed."""
        return self._shown(["docker"], arguments, timeout_s)

    def container(self, service: str) -> str:
        """The id of the container of a service, also of one that does not run."""
        labels = {"project": PROJECT, "service": service, "oneoff": "False"}
        pairs = [("--filter", f"label=com.docker.compose.{name}={value}") for name, value in labels.items()]
        filters = [part for pair in pairs for part in pair]
        (found,) = self.docker("ps", "--all", "--quiet", *filters).split()
        return found

    def inspect(self, service: str, template: str) -> str:
        """One thing that the engine knows of the container of a service."""
        return self.docker("inspect", "--format", template, self.container(service)).strip()

    def logs(self, service: str) -> str:
        """What a service has written."""
        command = ["docker", "logs", self.container(service)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30)
        return done.stdout + done.stderr

    def remove(self, *, volumes: bool) -> None:
        """All containers and the network; with their volumes, or without. Images stay, as a cache."""
        options = ["--volumes"] if volumes else []
        self.run("down", "--remove-orphans", *options, profiles=PROFILES)

    def _shown(self, command: Sequence[str], arguments: Sequence[str], timeout_s: float) -> str:
        what = " ".join(arguments)
        print(f"\n$ {command[0]} {what}" if command[0] == "docker" else f"\n$ docker compose {what}")
        began = time.monotonic()
        done = subprocess.run(
            [*command, *arguments],
            capture_output=True,
            text=True,
            timeout=timeout_s,
            env=self._environment,
            cwd=ROOT,
        )
        print(done.stdout + done.stderr + f"[{time.monotonic() - began:.1f} s]")
        assert done.returncode == 0, f"{what} ended with {done.returncode}: {done.stdout}{done.stderr}"
        return done.stdout


def _built_services() -> list[str]:
    numbers = {"controller": range(1, 3), "coordinator": range(1, 3), "broker": range(1, 7)}
    return [f"{kind}-{number}" for kind, each in numbers.items() for number in each] + ["spark"]
