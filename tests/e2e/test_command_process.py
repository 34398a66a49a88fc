"""Most tests run the command inside of their own process. They may, since it makes no difference."""

import subprocess
import sys
from pathlib import Path

import pytest
from e2e.command_line import environment, hightide, succeed
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster

SCRIPT = str(Path(sys.executable).with_name("hightide"))


@pytest.fixture(scope="module")
def topic(hightide_cluster: LocalCluster) -> str:
    """A topic with text that is neither ASCII nor harmless to a terminal."""
    succeed(hightide_cluster, "topic", "create", "said-twice", "-r", "3")
    succeed(hightide_cluster, "topic", "produce", "said-twice", "-K", ":", stdin="é:\x1b[1m\nk:v\n".encode())
    return "said-twice"


# None of these shows anything that a broker which is slow for a moment changes, as an ISR.
@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("topic", "ls", "-o", "json"), 0),
        (("topic", "consume", "said-twice", "--exit", "-f", r"%k=%v\n"), 0),
        (("topic", "describe", "nowhere"), 1),
        (("topic", "create", "said-twice", "-p", "none"), 2),
        (("topic",), 2),
    ],
    ids=["document", "records", "error", "usage-error", "help"],
)
def test_a_process_says_and_ends_as_the_command_does_inside_of_a_test(
    hightide_cluster: LocalCluster, topic: str, arguments: tuple[str, ...], code: int
) -> None:
    inside = hightide(hightide_cluster, *arguments)
    process = subprocess.run(
        [SCRIPT, *arguments], env=environment(hightide_cluster), capture_output=True, check=False
    )
    assert inside.stdout == process.stdout
    assert inside.stderr == process.stderr
    assert (inside.returncode, process.returncode) == (code, code)
    assert (bool(inside.stdout), bool(inside.stderr)) == (code == 0, code != 0)
