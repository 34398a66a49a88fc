"""What commands print with -o json is what the registry says: no field more, none less, none of another
type."""

import json
from pathlib import Path

import pytest
from e2e.commands_here import run_here, succeed_here
from hightide_cli.documents.form import departures
from hightide_cli.documents.registry import DOCUMENTS
from hightide_local.cluster import LocalCluster

pytestmark = pytest.mark.cluster


# Each one line; the trace directory follows behind --directory.
LINES = (
    "topic ls",
    "topic describe doc",
    "topic describe --offline",
    "topic alter doc -s retention.ms=3600000",
    "topic add-partitions doc -p 4",
    "topic remove-partitions doc -p 3 --yes",
    "topic offsets doc",
    "topic offsets doc --at 2000-01-01",
    "topic size",
    "topic consume doc -e",
    "topic grep doc one",
    "topic grep doc one -c",
    "topic copy doc doc-copied --create --dry-run",
    "topic copy doc doc-copied --create",
    "group commit doc-readers doc:0=0 doc:1=0 --dry-run",
    "group commit doc-readers doc:0=0 doc:1=0",
    "group ls",
    "group describe doc-readers",
    "group lag doc-readers",
    "group reset-offsets doc-readers --to-latest",
    "group delete-offsets doc-readers doc --dry-run",
    "group delete doc-readers --yes",
    "cluster info",
    "cluster health",
    "broker ls",
    "broker describe 1",
    "broker describe 1 --replicas",
    "broker log-dirs",
    "broker drain 1 --dry-run",
    "controller show",
    "controller resign --dry-run",
    "coordinator show",
    "coordinator resign 1 --dry-run",
    "config get doc",
    "config show",
    "config set doc retention.ms=7200000",
    "acl add client/alice --allow write --topic doc --dry-run",
    "acl add client/alice --allow write --topic doc",
    "acl ls",
    "acl check client/alice write --topic doc",
    "acl rm client/alice --allow write --topic doc",
    "context add here",
    "context ls",
    "context show here",
    "context show",
    "context select here",
    "context rm here",
    "elect preferred --topic doc",
    "reassign ls",
    "reassign throttle 10MB",
    "reassign throttle off",
    "reassign cancel --topic doc --dry-run",
    "quota set client/* --produce 10MB --calls 100 --dry-run",
    "quota set client/doc --fetch 10MB",
    "quota ls",
    "quota rm client/doc",
    "trace ls --directory",
    "version --client",
    "version",
    "top --once",
    "rpc ls",
    "rpc ls hightide.v1.BrokerService",
    "rpc describe hightide.v1.BrokerService",
    "rpc describe hightide.v1.BrokerService/GetMetadata",
    "rpc describe hightide.v1.GetMetadataRequest",
    "rpc describe hightide.v1.ErrorCode",
)


class Checked:
    """Runs commands and holds their documents to the registry."""

    def __init__(self, cluster: LocalCluster) -> None:
        self.cluster = cluster
        self.seen: set[str] = set()
        self.wrong: list[object] = []

    def __call__(self, line: str, *more: str, stdin: bytes = b"", may_fail: bool = False) -> None:
        arguments = [*line.split(), *more]
        name = max((each for each in DOCUMENTS if f"{line} ".startswith(f"{each} ")), key=len)
        run = run_here(self.cluster, *arguments, "-o", "json", stdin=stdin)
        lines = run.stdout.splitlines()
        if (run.exception is not None and not may_fail) or not lines:
            self.wrong.append((line, run.exception, run.stderr))
        if len(lines) > 1 and not any(each.is_stream for each in DOCUMENTS[name]):
            self.wrong.append((line, "prints several documents"))
        for each in lines:
            departing = departures(DOCUMENTS[name], json.loads(each))
            self.wrong += [(line, departing, each)] if departing else []
        self.seen.add(name)


def test_documents_are_as_the_registry_says(
    hightide_cluster: LocalCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Contexts are the user's own file.
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    cluster, checked = hightide_cluster, Checked(hightide_cluster)
    checked("topic create doc -p 3 -r 3 -c min.insync.replicas=2")
    checked("topic create doc-planned --dry-run")
    checked("topic create doc-single -p 3 -r 1")
    records = [
        {"key": "k", "value": "one", "headers": {"h": "x"}},
        {"key": None, "value_base64": "/wA="},
        {"key_base64": "/w==", "value": None},
    ]
    checked("topic produce doc --json", stdin=b"".join(json.dumps(each).encode() + b"\n" for each in records))
    for line in LINES:
        more = (str(cluster.directory / "traces"),) if line.endswith("--directory") else ()
        checked(line, *more)
    check_places(checked, tmp_path)
    checked("topic delete doc-copied --yes")
    check_certificates(checked, tmp_path)
    assert checked.wrong == []
    from_a_cluster = {name for name in DOCUMENTS if name.split()[0] not in {"bench", "dev", "demo"}}
    # Each of these has a test of its own, that has to do more to it before it prints something.
    elsewhere = {"elect unclean", "topic isr-watch", "trace show", "topic trim"}
    assert checked.seen | elsewhere >= from_a_cluster, "a command without a look at its document"


def check_certificates(checked: Checked, tmp_path: Path) -> None:
    """The commands about certificates, which need no cluster."""
    directory = tmp_path / "ca"
    checked("certs ca", "--directory", str(directory))
    checked("certs issue", "client/alice", "--directory", str(directory))
    checked("certs show", str(directory / "client-alice.crt"))


def check_places(checked: Checked, tmp_path: Path) -> None:
    """The commands that need to know where something is."""
    cluster = checked.cluster
    first = json.loads(succeed_here(cluster, "topic", "consume", "doc", "-n", "1", "-o", "json"))
    checked(f"topic get doc {first['partition']} {first['offset']}")
    plan = tmp_path / "plan.json"
    plan.write_bytes(
        succeed_here(cluster, "reassign", "plan", "--topic", "doc-single", "--brokers", "2,3", "-o", "json")
    )
    checked("reassign plan --topic doc-single --brokers 2,3")
    checked(f"reassign apply {plan} --dry-run")
    checked(f"reassign apply {plan}")
    checked("reassign watch --interval 0.1")
    checked("doctor", may_fail=True)
    checked("zk get /cluster/id --zookeeper", cluster.zookeeper)
    checked("zk tree /brokers --zookeeper", cluster.zookeeper)
    credentials = tmp_path / "zookeeper.credentials"
    credentials.touch(mode=0o600)
    credentials.write_text("hightide:secret")
    checked(f"zk secure --undo --zookeeper-credentials-file {credentials} --zookeeper", cluster.zookeeper)
    for broker in (1, 2):
        for each in cluster.data_directory(broker).glob("*-0"):
            # A log without a batch has no row to look at.
            if any(segment.stat().st_size for segment in each.glob("*.log")):
                checked("dump-log", str(each))
                checked("dump-index", str(each))
