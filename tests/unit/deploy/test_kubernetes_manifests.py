"""What the manifests of deploy/kubernetes promise, as far as it can be seen without a Kubernetes."""

from __future__ import annotations

import re
import shutil
import subprocess
from functools import cache
from pathlib import Path
from typing import Any, Final

import msgspec
import pytest
import yaml
from hightide_broker.settings import BrokerSettings
from hightide_controller.settings import ControllerSettings
from hightide_coordinator.settings import CoordinatorSettings
from hightide_runtime.process.settings import ServiceSettings
from lightkube.models import apps_v1, core_v1, networking_v1, policy_v1

ROOT = Path(__file__).resolve().parents[3]
DIRECTORY = ROOT / "deploy" / "kubernetes"
MODELS: Final[dict[str, type[msgspec.Struct]]] = {
    "Namespace": core_v1.Namespace,
    "NetworkPolicy": networking_v1.NetworkPolicy,
    "PodDisruptionBudget": policy_v1.PodDisruptionBudget,
    "Service": core_v1.Service,
    "StatefulSet": apps_v1.StatefulSet,
}
SETTINGS: Final[dict[str, type[ServiceSettings]]] = {
    "broker": BrokerSettings,
    "controller": ControllerSettings,
    "coordinator": CoordinatorSettings,
}
#: What PodSecurity `restricted` and a hardened container ask for.
RESTRICTED = {
    "allowPrivilegeEscalation": False,
    "readOnlyRootFilesystem": True,
    "capabilities": {"drop": ["ALL"]},
}


@cache
def documents() -> dict[tuple[str, str], dict[str, Any]]:
    """Each object that the kustomization names, by kind and name."""
    kustomization = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())
    files = [(DIRECTORY / name).read_text() for name in kustomization["resources"]]
    found = [each for text in files for each in yaml.safe_load_all(text)]
    return {(each["kind"], each["metadata"]["name"]): each for each in found}


def pod(kind: str) -> dict[str, Any]:
    spec: dict[str, Any] = documents()["StatefulSet", kind]["spec"]["template"]["spec"]
    return spec


def container(kind: str) -> dict[str, Any]:
    (only,) = pod(kind)["containers"]
    assert isinstance(only, dict)
    return only


def without_nothing(value: Any) -> Any:
    """Without the fields that are not given."""
    if isinstance(value, dict):
        return {name: without_nothing(each) for name, each in value.items() if each is not None}
    return [without_nothing(each) for each in value] if isinstance(value, list) else value


def as_kubernetes_reads_it(document: dict[str, Any]) -> Any:
    """The object with the fields that Kubernetes knows. Raises ValidationError for a wrong type or a missing
    field."""
    read = msgspec.convert(document, MODELS[document["kind"]])
    return without_nothing(msgspec.to_builtins(read))


@pytest.mark.parametrize("kind_and_name", sorted(documents()), ids="-".join)
def test_every_object_is_one_that_kubernetes_knows(kind_and_name: tuple[str, str]) -> None:
    document = documents()[kind_and_name]
    assert as_kubernetes_reads_it(document) == document


def test_a_field_that_kubernetes_does_not_know_is_found() -> None:
    document = {**documents()["Service", "broker"]}
    document["spec"] = {**document["spec"], "clusterIp": "None"}
    assert as_kubernetes_reads_it(document) != document
    document["spec"] = {**document["spec"], "ports": [{"port": "9092"}]}
    with pytest.raises(msgspec.ValidationError):
        as_kubernetes_reads_it(document)


def test_every_file_is_part_of_the_kustomization() -> None:
    kustomization = yaml.safe_load((DIRECTORY / "kustomization.yaml").read_text())
    assert {*kustomization["resources"], "kustomization.yaml"} == {path.name for path in DIRECTORY.iterdir()}
    images = {each["name"] for each in kustomization["images"]}
    used = {container(kind)["image"].partition(":")[0] for kind in SETTINGS}
    assert images == used


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="there is no kubectl here")
def test_kustomize_makes_the_same_objects_in_a_namespace_of_their_own() -> None:
    done = subprocess.run(["kubectl", "kustomize", DIRECTORY], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    made = list(yaml.safe_load_all(done.stdout))
    assert {(each["kind"], each["metadata"]["name"]) for each in made} == documents().keys()
    assert {each["metadata"].get("namespace", each["metadata"]["name"]) for each in made} == {"hightide"}


def started(kind: str, number: int) -> ServiceSettings:
    """The settings of a pod's process. Ends the test where a flag or a variable is none of the service's."""
    values = {
        "metadata.name": f"{kind}-{number}",
        "metadata.namespace": "hightide",
        "metadata.labels['apps.kubernetes.io/pod-index']": str(number),
    }
    variables = {
        each["name"]: each["value"] if "value" in each else values[each["valueFrom"]["fieldRef"]["fieldPath"]]
        for each in container(kind)["env"]
    }
    image = dict(re.findall(r"(HIGHTIDE_\w+)=(\S+)", (ROOT / "docker" / kind / "Dockerfile").read_text()))
    known = {f"HIGHTIDE_{kind}_{name}".upper() for name in SETTINGS[kind].model_fields}
    assert {name for name in {**image, **variables} if name.startswith("HIGHTIDE_")} <= known
    arguments = [
        re.sub(r"\$\((\w+)\)", lambda it: variables[it[1]], each) for each in container(kind)["args"]
    ]
    with pytest.MonkeyPatch.context() as patch:
        for name, value in {**image, **variables}.items():
            patch.setenv(name, value)
        return SETTINGS[kind].from_command_line(arguments)


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_each_pod_starts_with_an_id_and_an_address_of_its_own(kind: str) -> None:
    spec = documents()["StatefulSet", kind]["spec"]
    first, count = spec["ordinals"]["start"], spec["replicas"]
    settings = [started(kind, number) for number in range(first, first + count)]
    assert [getattr(each, f"{kind}_id") for each in settings] == [*range(1, count + 1)]
    port = settings[0].listen.port
    told = [f"{kind}-{number}.{kind}.hightide.svc:{port}" for number in range(1, count + 1)]
    assert [str(each.advertised) for each in settings] == told
    # By the headless service of this name a pod has the name that it tells.
    service = documents()["Service", kind]["spec"]
    assert (spec["serviceName"], service["clusterIP"], service["publishNotReadyAddresses"]) == (
        kind,
        "None",
        True,
    )
    assert [each["port"] for each in service["ports"]] == [port]
    assert [each["containerPort"] for each in container(kind)["ports"]] == [port]


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_each_process_finds_the_zookeepers_that_there_are(kind: str) -> None:
    spec = documents()["StatefulSet", "zookeeper"]["spec"]
    numbers = range(spec["ordinals"]["start"], spec["ordinals"]["start"] + spec["replicas"])
    assert started(kind, 1).zookeeper == ",".join(f"zookeeper-{each}.zookeeper:2181" for each in numbers)
    (servers,) = [each["value"] for each in container("zookeeper")["env"] if each["name"] == "ZOO_SERVERS"]
    assert servers.split() == [f"server.{each}=zookeeper-{each}.zookeeper:2888:3888;2181" for each in numbers]


def test_a_broker_has_time_to_hand_over_and_to_close_its_logs() -> None:
    broker = started("broker", 1)
    assert isinstance(broker, BrokerSettings)
    grace_s = pod("broker")["terminationGracePeriodSeconds"]
    assert grace_s >= 2 * broker.controlled_shutdown_timeout_ms / 1000 + 30
    # A signal to the first process of a container is lost while that has no handler yet.
    assert all(pod(kind)["shareProcessNamespace"] is True for kind in SETTINGS)


def test_a_broker_keeps_its_log_in_a_volume_and_shares_no_machine_with_another() -> None:
    broker = started("broker", 1)
    assert isinstance(broker, BrokerSettings)
    mounts = {each["name"]: each["mountPath"] for each in container("broker")["volumeMounts"]}
    assert [str(path) for path in broker.data_dir] == [mounts["data"]]
    (claim,) = documents()["StatefulSet", "broker"]["spec"]["volumeClaimTemplates"]
    assert claim["metadata"]["name"] == "data"
    apart = pod("broker")["affinity"]["podAntiAffinity"]["requiredDuringSchedulingIgnoredDuringExecution"]
    assert [each["topologyKey"] for each in apart] == ["kubernetes.io/hostname"]


@pytest.mark.parametrize("kind", [*sorted(SETTINGS), "zookeeper"])
def test_a_drained_node_takes_one_pod_of_a_kind_at_a_time(kind: str) -> None:
    budget = documents()["PodDisruptionBudget", kind]["spec"]
    labels = documents()["StatefulSet", kind]["spec"]["template"]["metadata"]["labels"]
    assert budget["maxUnavailable"] == 1
    for selector in (budget["selector"], documents()["StatefulSet", kind]["spec"]["selector"]):
        assert selector["matchLabels"].items() <= labels.items()


@pytest.mark.parametrize("kind", sorted(SETTINGS))
def test_a_pod_is_probed_as_its_image_is_and_may_do_nothing_else(kind: str) -> None:
    probe = (
        f'python -m hightide_runtime.probe --tls-of HIGHTIDE_{kind.upper()} "$HIGHTIDE_{kind.upper()}_LISTEN"'
    )
    assert probe in (ROOT / "docker" / kind / "Dockerfile").read_text()
    for name in ("startupProbe", "readinessProbe"):
        assert container(kind)[name]["exec"]["command"] == ["sh", "-c", f"exec {probe}"]
    assert container(kind)["securityContext"] == RESTRICTED
    security = pod(kind)["securityContext"]
    assert security["runAsNonRoot"] is True
    assert f"--uid {security['runAsUser']} " in (ROOT / "docker" / kind / "Dockerfile").read_text()
    assert security["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod(kind)["automountServiceAccountToken"] is False
    assert "memory" in container(kind)["resources"]["limits"]
