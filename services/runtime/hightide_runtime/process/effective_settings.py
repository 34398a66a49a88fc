"""The settings of a running process, each with its origin: for operators who ask a server."""

import enum
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from pydantic.fields import FieldInfo
from pydantic_settings import BaseSettings, CliSettingsSource, EnvSettingsSource


class SettingOrigin(enum.Enum):
    """The origin of a value. Later members of this enumeration override earlier ones."""

    DEFAULT = enum.auto()
    ENVIRONMENT = enum.auto()
    ARGUMENT = enum.auto()


@dataclass(frozen=True, slots=True)
class EffectiveSetting:
    """One setting: `name` as on the command line without dashes, `value` and `default` as they are written
    there, empty if there is none; `variable` is the environment variable for it."""

    name: str
    value: str
    default: str
    origin: SettingOrigin
    variable: str
    meaning: str


def told_by_name(settings: type[BaseSettings], arguments: Sequence[str]) -> dict[str, SettingOrigin]:
    """The fields that a command line and this process's environment set. Called once both were parsed: an
    invalid command line ends the process with a usage message."""
    from_environment = EnvSettingsSource(settings)()
    from_arguments = CliSettingsSource[Any](settings, cli_parse_args=list(arguments))()
    return dict.fromkeys(from_environment, SettingOrigin.ENVIRONMENT) | dict.fromkeys(
        from_arguments, SettingOrigin.ARGUMENT
    )


def effective_settings(settings: BaseSettings, told: dict[str, SettingOrigin]) -> list[EffectiveSetting]:
    """All settings by name; `told`: those that are not defaults."""
    prefix = settings.model_config.get("env_prefix", "")
    values = settings.model_dump(mode="json")
    return sorted(
        (
            EffectiveSetting(
                name.replace("_", "-"),
                _text(values[name]),
                _default(field),
                told.get(name, SettingOrigin.DEFAULT),
                f"{prefix}{name}".upper(),
                field.description or "",
            )
            for name, field in type(settings).model_fields.items()
        ),
        key=lambda each: each.name,
    )


def _default(field: FieldInfo) -> str:
    if field.is_required():
        return ""
    default = field.get_default(call_default_factory=True)
    return _text(default.value if isinstance(default, enum.Enum) else default)


def _text(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list | tuple):
        return ",".join(map(_text, value))
    return str(value)
