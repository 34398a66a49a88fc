"""The failures that the user can act on, and their text on one line."""

import sys
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from hightide_cli.context.target import Target

# Modules whose errors carry a sentence for the user, with the base class of those errors. They are looked up
# only if the command has already imported them: a module that is not imported cannot have raised.
_FOR_THE_USER = (
    ("hightide.errors", "HightideError"),
    ("hightide.batch.header", "BatchError"),
    ("hightide_local.errors", "ClusterError"),
    ("hightide_runtime.errors", "StartupError"),
    ("hightide_runtime.zookeeper.errors", "ZooKeeperError"),
    ("hightide_broker.storage.errors", "StorageError"),
    ("hightide_cli.context.named_clusters", "ContextError"),
    ("hightide_cli.reassign.plan_file", "PlanFileError"),
    ("hightide_cli.reassign.plan", "PlanError"),
    ("hightide_cli.group.reset_plan", "ResetPlanError"),
    ("hightide_cli.copying.plan", "CopyError"),
    ("hightide_demo.flights", "FlightsMissingError"),
    ("hightide_demo.group", "ConsumerEndedError"),
    ("hightide_demo.run", "DemoDirectoryError"),
    ("hightide_demo.script", "ScriptError"),
    ("hightide_demo.spark", "SparkFailedError"),
    ("hightide_bench.loads.load_worker", "LoadFailedError"),
)

# Errors after which no server of the cluster could be asked at all.
_OF_NOBODY = ("BrokersUnavailableError", "AddressUnreachableError")

# Errors after which the user may wonder why that address was tried.
_OF_ADDRESSES = (
    *("BrokersUnavailableError", "AddressUnreachableError", "RequestTimeoutError"),
    *("ControllerUnavailableError", "CoordinatorUnavailableError", "UnexpectedAnswerError"),
)


def sentence_of(error: Exception, target: "Target | None" = None) -> str | None:
    """Return the sentence for the user, or None if the failure is a fault of the program. `target` is the
    chosen cluster: if it cannot be reached, the sentence ends with the reason for the choice."""
    sentence = _sentence(error)
    if sentence is None or target is None or not _is_of_an_address(error):
        return sentence
    address = "the address" if target.bootstrap in sentence else f"the address {target.bootstrap}"
    return f"{sentence.rstrip('.')}; {address} is {target.origin}"


def nobody_answers(error: Exception) -> bool:
    """Whether no server could be reached. This has an exit code of its own, because a later attempt may
    succeed."""
    return _is_one_of(_OF_NOBODY, error)


def _is_of_an_address(error: Exception) -> bool:
    return _is_one_of(_OF_ADDRESSES, error)


def _is_one_of(names: tuple[str, ...], error: Exception) -> bool:
    errors = sys.modules.get("hightide.errors")
    return isinstance(error, tuple(getattr(errors, name) for name in names if hasattr(errors, name)))


def _sentence(error: Exception) -> str | None:
    for module_name, class_name in _FOR_THE_USER:
        module = sys.modules.get(module_name)
        known = getattr(module, class_name, None)
        if known is not None and isinstance(error, known):
            return str(error)
    if isinstance(error, OSError):
        return _sentence_of_os_error(error)
    if isinstance(error, ModuleNotFoundError):
        return f"this command needs the package {error.name}: pip install 'hightide[local]'"
    return None


def _sentence_of_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename is not None else reason
