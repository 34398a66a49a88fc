"""The metrics of a server's RPCs: how long they took, and why some failed. Names are OpenTelemetry's."""

from collections.abc import Mapping

from hightide_runtime.serving.interceptors.timing import MethodTiming
from hightide_runtime.telemetry.metric_declarations import Measure, Readings, counter, gauge, histogram
from hightide_runtime.telemetry.metric_export import Metrics

__all__ = ["METRICS", "report_rpcs", "rpc_readings"]

METRICS = (
    histogram(
        "rpc.server.call.duration", "s",
        "from the arrival of a call to its answer; a Fetch or ReplicaFetch includes its wait for data, a "
        "Produce that for replicas, and a stream lasts as long as its client stays",
        "rpc.method",
    ),
    counter(
        "rpc.server.call.errors", "{call}",
        "calls that failed: a code of the error catalogue, CANCELLED (the client gave up), or UNKNOWN; "
        "refusals of single partitions are in hightide.broker.refusals",
        "rpc.method", "error.type",
    ),
    gauge(
        "rpc.server.calls_in_hand", "{call}", "calls that are not answered yet, also those that wait",
        "rpc.method",
    ),
)  # fmt: skip


def report_rpcs(metrics: Metrics, timings: Mapping[str, MethodTiming]) -> None:
    """Report these metrics from now on. Mains call it once they serve, with `Server.timings`."""
    metrics.report(METRICS, rpc_readings(timings))


def rpc_readings(timings: Mapping[str, MethodTiming]) -> Measure:
    """The readings for `Metrics.report`. A method appears when it was called for the first time."""

    def measure() -> Readings:
        called = [(name[1:], each) for name, each in tuple(timings.items()) if each.begun]
        return {
            "rpc.server.call.duration": {(name,): each.duration_s for name, each in called},
            "rpc.server.call.errors": {
                (name, reason): count
                for name, each in called
                for reason, count in tuple(each.failures.items())
            },
            "rpc.server.calls_in_hand": {(name,): each.in_hand for name, each in called},
        }

    return measure
