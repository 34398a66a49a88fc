"""configuration.md, the services' part: flags, environment variables, defaults, bounds."""

import enum
import types
import typing
from pathlib import Path
from typing import Any

from hightide_broker.settings import BrokerSettings
from hightide_controller.settings import ControllerSettings
from hightide_coordinator.settings import CoordinatorSettings
from hightide_runtime.addresses import HostPort
from hightide_runtime.process.settings import ServiceSettings
from pydantic.fields import FieldInfo

from reference_pages.markdown import code, number, table

_SERVICES: tuple[tuple[str, type[ServiceSettings]], ...] = (
    ("hightide-broker", BrokerSettings),
    ("hightide-controller", ControllerSettings),
    ("hightide-coordinator", CoordinatorSettings),
)


def sections() -> list[str]:
    """What all services take, and then what each takes beside it."""
    shared = list(ServiceSettings.model_fields)
    rows = [
        (
            code(_flag(name)),
            code(f"HIGHTIDE_…_{name.upper()}"),
            _type(field),
            ", ".join(dict.fromkeys(_default(settings.model_fields[name]) for _, settings in _SERVICES)),
            _bounds(field),
            field.description or "",
        )
        for name, field in ServiceSettings.model_fields.items()
    ]
    headings = ("flag", "environment variable", "type", "default", "bounds", "meaning")
    parts = ["## All services\n\n" + table(headings, rows)]
    for program, settings in _SERVICES:
        prefix = settings.model_config.get("env_prefix", "")
        own = [
            (
                code(_flag(name)),
                code(f"{prefix}{name.upper()}"),
                _type(field),
                _default(field),
                _bounds(field),
                field.description or "",
            )
            for name, field in settings.model_fields.items()
            if name not in shared
        ]
        parts.append(f"## `{program}`\n\n" + table(headings, own))
    return parts


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _type(field: FieldInfo) -> str:
    return _name_of(field.annotation)


def _name_of(annotation: Any) -> str:
    arguments = [each for each in typing.get_args(annotation) if each is not type(None)]
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        return " or ".join(map(_name_of, arguments))
    if typing.get_origin(annotation) is tuple:
        return f"{_name_of(arguments[0])}, several"
    if hasattr(annotation, "__metadata__"):
        return _name_of(annotation.__origin__)
    if isinstance(annotation, type) and issubclass(annotation, enum.Enum):
        return " or ".join(code(member.value) for member in annotation)
    named = {int: "whole number", float: "number", str: "text", bool: "true or false", Path: "directory"}
    return {**named, HostPort: "host:port"}.get(annotation, getattr(annotation, "__name__", str(annotation)))


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return "needed"
    value = field.get_default(call_default_factory=True)
    if value is None or value == () or value == "":
        return ""
    if isinstance(value, int):
        return code(str(value).lower())
    return code(value.value if isinstance(value, enum.Enum) else value)


def _bounds(field: FieldInfo) -> str:
    least: float | None = next((each.ge for each in field.metadata if hasattr(each, "ge")), None)
    most: float | None = next((each.le for each in field.metadata if hasattr(each, "le")), None)
    if least is not None and most is not None:
        return f"{number(least)} to {number(most)}"
    if least is not None:
        return f"at least {number(least)}"
    return "" if most is None else f"at most {number(most)}"
