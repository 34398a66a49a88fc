"""What the files of docker/ promise, as far as it can be seen without an engine."""

import re
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[3]
DOCKER = ROOT / "docker"
DOCKERFILES = sorted(DOCKER.glob("*/Dockerfile"))
SERVICES = {"broker", "controller", "coordinator"}


@cache
def compose() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((DOCKER / "compose.yaml").read_text())
    return loaded


def processes() -> dict[str, dict[str, Any]]:
    """The services that are one process of Hightide each: broker-1 and so on; led-broker-1 is of the cluster
    without a controller."""
    services = compose()["services"]
    return {name: each for name, each in services.items() if re.fullmatch(r"(led-)?[a-z]+-\d", name)}


def option(service: dict[str, Any], name: str) -> str:
    command: list[str] = service["command"]
    return command[command.index(name) + 1]


def test_there_are_three_brokers_two_controllers_and_two_coordinators_unless_more_are_asked_for() -> None:
    by_default = [name for name, each in processes().items() if "profiles" not in each]
    assert sorted(by_default) == [
        *("broker-1", "broker-2", "broker-3", "controller-1", "controller-2"),
        *("coordinator-1", "coordinator-2"),
    ]


def test_each_process_has_an_id_addresses_and_a_port_of_its_own() -> None:
    ports = []
    for name, service in processes().items():
        kind, number = name.removeprefix("led-").split("-")
        assert option(service, f"--{kind}-id") == number
        assert option(service, "--advertise").startswith(f"{name}:")
        (published,) = service["ports"]
        external = option(service, "--external-advertise")
        assert published.split(":")[-2] == external.rpartition(":")[2], name
        assert service["environment"][f"HIGHTIDE_{kind.upper()}_EXTERNAL_LISTEN"].endswith(
            ":" + published.split(":")[-1]
        )
        ports.append(external.rpartition(":")[2])
    assert len(set(ports)) == len(ports)


@pytest.mark.parametrize("kind", sorted(SERVICES))
def test_the_name_of_a_kind_starts_and_watches_all_of_its_processes(kind: str) -> None:
    watcher = compose()["services"][kind]
    of_kind = {
        name: option(each, "--advertise")
        for name, each in processes().items()
        if name.startswith(f"{kind}-") and "profiles" not in each
    }
    assert watcher["profiles"] == [kind], "`docker compose up` without a name starts no watcher"
    assert of_kind.keys() <= watcher["depends_on"].keys()
    assert {each["condition"] for each in watcher["depends_on"].values()} == {"service_healthy"}
    probe = ["python", "-m", "hightide_runtime.probe"]
    assert watcher["entrypoint"] == [*probe, "--watch", *of_kind.values()]
    assert watcher["healthcheck"]["test"] == ["CMD", *probe, *of_kind.values()]


def test_the_profile_leaders_is_a_cluster_of_its_own_without_a_controller() -> None:
    led = {name: each for name, each in processes().items() if name.startswith("led-")}
    assert sorted(led) == ["led-broker-1", "led-broker-2", "led-broker-3", "led-coordinator-1"]
    for name, each in {**led, "leaders": compose()["services"]["leaders"]}.items():
        assert each["profiles"] == ["leaders"], name
        needed = set(each.get("depends_on", ()))
        assert needed <= {*led, "zookeeper"}, "nothing of the other cluster is started"
    for name, each in led.items():
        environment = each["environment"]
        kind = name.split("-")[1].upper()
        assert environment[f"HIGHTIDE_{kind}_ZOOKEEPER"] == "zookeeper:2181/leaders"
        assert environment.get("HIGHTIDE_BROKER_COORDINATION") == ("leaders" if kind == "BROKER" else None)
    watched = compose()["services"]["leaders"]["entrypoint"]
    assert watched[-3:] == [option(led[f"led-broker-{number}"], "--advertise") for number in (1, 2, 3)]


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_an_image_has_every_package_of_ours_that_its_service_imports(name: str) -> None:
    """What is copied is what the wheel holds: an import of anything else ends the process at its start."""
    copied = set(
        re.findall(r"^COPY services/(\S+) ", (DOCKER / name / "Dockerfile").read_text(), re.MULTILINE)
    )
    for service in copied:
        for module in (ROOT / "services" / service).rglob("*.py"):
            for other in re.findall(r"^\s*(?:from|import) hightide_(\w+)", module.read_text(), re.MULTILINE):
                assert other in copied, f"{module} imports hightide_{other}"


def test_nothing_is_published_beyond_loopback_unless_somebody_says_so() -> None:
    for service in compose()["services"].values():
        for port in service.get("ports", ()):
            assert port.startswith("${HIGHTIDE_BIND:-127.0.0.1}:")


def test_every_broker_keeps_its_log_in_a_named_volume_of_its_own() -> None:
    for name, service in processes().items():
        if name.startswith(("broker-", "led-broker-")):
            assert service["volumes"] == [f"{name}:/var/lib/hightide"]
            assert name in compose()["volumes"]


@pytest.mark.parametrize("path", DOCKERFILES, ids=lambda path: path.parent.name)
def test_an_image_is_built_in_stages_and_runs_as_an_ordinary_user(path: Path) -> None:
    text = path.read_text()
    assert len(re.findall(r"^FROM ", text, re.MULTILINE)) == 2
    assert re.search(r"^USER 10001$", text, re.MULTILINE)
    assert "org.opencontainers.image.version" in text
    dependencies, code = text.index(f"--group image-{path.parent.name}"), text.index("COPY clients/python")
    assert dependencies < code, "a change of the code must not install the dependencies again"


@pytest.mark.parametrize("name", sorted(SERVICES))
def test_a_service_is_probed_and_ended_as_it_expects(name: str) -> None:
    text = (DOCKER / name / "Dockerfile").read_text()
    assert re.search(r"^STOPSIGNAL SIGTERM$", text, re.MULTILINE)
    assert (
        f'python -m hightide_runtime.probe --tls-of HIGHTIDE_{name.upper()} "$HIGHTIDE_{name.upper()}_LISTEN"'
        in text
    )


def test_a_container_that_is_stopped_while_it_starts_ends_at_once() -> None:
    """Its first process is one that handles SIGTERM from the beginning."""
    built = {
        name: each for name, each in compose()["services"].items() if each["image"].startswith("hightide")
    }
    assert {*processes(), *SERVICES, "leaders", "spark"} == set(built)
    assert [name for name, each in built.items() if each.get("init") is not True] == []


def test_every_package_of_an_image_has_its_version_in_the_constraints() -> None:
    groups = tomllib.loads((ROOT / "pyproject.toml").read_text())["dependency-groups"]
    pinned = {
        line.split("==")[0].lower().replace("_", "-")
        for line in (ROOT / "constraints.txt").read_text().splitlines()
    }
    images = {name: group for name, group in groups.items() if name.startswith("image-")}
    assert {f"image-{path.parent.name}" for path in DOCKERFILES} < set(images)
    for group in images.values():
        assert {each.lower() for each in group if isinstance(each, str)} <= pinned


def test_the_collector_sends_what_it_gets_to_exporters_that_there_are() -> None:
    collector = yaml.safe_load((DOCKER / "observability" / "collector.yaml").read_text())
    assert collector["receivers"]["otlp"]["protocols"]["grpc"]["endpoint"].endswith(":4317")
    for signal in ("traces", "metrics"):
        pipeline = collector["service"]["pipelines"][signal]
        for kind in ("receivers", "processors", "exporters"):
            assert pipeline[kind]
            assert set(pipeline[kind]) <= set(collector[kind])


def test_every_version_of_the_environment_file_is_used() -> None:
    lines = (DOCKER / ".env").read_text().splitlines()
    names = [line.lstrip("# ").partition("=")[0] for line in lines if re.match(r"(# )?[A-Z_]+=", line)]
    text = (DOCKER / "compose.yaml").read_text()
    unused = [name for name in names if f"${{{name}" not in text and not name.startswith("COMPOSE_")]
    assert unused == []
