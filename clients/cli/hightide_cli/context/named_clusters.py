"""Named clusters: a file of the user with their addresses, and the one that commands use by default."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Final

from hightide_cli.command_line.client_arguments import NO_FILES, CredentialFiles
from hightide_cli.command_line.json_files import read_json, write_json

VERSION: Final = 1
CONTEXTS_MAX: Final = 1_000
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}")


class ContextError(Exception):
    """A context that does not exist, or a file that cannot be read; the message says what to do."""


@dataclass(frozen=True, slots=True)
class Context:
    """One cluster: the addresses of its brokers and, for the commands that read it, of its ZooKeeper; and the
    files of TLS and of the token for it."""

    name: str
    bootstrap: str
    zookeeper: str | None = None
    files: CredentialFiles = NO_FILES


@dataclass(frozen=True, slots=True)
class Contexts:
    """All contexts by name, and the selected one."""

    by_name: Mapping[str, Context]
    selected: str | None = None

    def named(self, name: str) -> Context:
        """The context of this name. Raises ContextError if there is none."""
        found = self.by_name.get(name)
        if found is None:
            known = ", ".join(sorted(self.by_name)) or "none yet"
            raise ContextError(
                f"there is no context {name!r} (there is {known}); "
                "`hightide context add NAME --bootstrap HOST:PORT` makes one"
            )
        return found

    def current(self) -> Context | None:
        """The selected one."""
        return None if self.selected is None else self.named(self.selected)

    def with_added(self, added: Context) -> "Contexts":
        """The contexts with this one added, in place of any other of its name. Raises ContextError."""
        if not _NAME.fullmatch(added.name):
            raise ContextError(
                f"{added.name!r} is no name of a context: take up to 64 letters, digits, dots, dashes and "
                "underscores, the first a letter or a digit"
            )
        if len(self.by_name) >= CONTEXTS_MAX and added.name not in self.by_name:
            raise ContextError(f"there are {CONTEXTS_MAX} contexts already; remove one first")
        return replace(self, by_name={**self.by_name, added.name: added})

    def without(self, name: str) -> "Contexts":
        """The contexts without this one; if it was selected, none is selected afterwards. Raises
        ContextError."""
        self.named(name)
        left = {each: context for each, context in self.by_name.items() if each != name}
        return Contexts(left, None if self.selected == name else self.selected)

    def with_selected(self, name: str) -> "Contexts":
        """The contexts with this one selected. Raises ContextError."""
        return replace(self, selected=self.named(name).name)


def contexts_path() -> Path:
    """The path of the contexts: in the user's own configuration directory, as the system defines it."""
    from platformdirs import user_config_path

    return user_config_path("hightide", appauthor=False) / "contexts.json"


def load_contexts(path: Path) -> Contexts:
    """Read the contexts; none if there is no file. Raises ContextError."""
    try:
        return _decoded(read_json(path))
    except FileNotFoundError:
        return Contexts({})
    except OSError as error:
        raise ContextError(f"{path} cannot be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise ContextError(
            f"{path} is not what `hightide context` writes ({error}): correct it or delete it"
        ) from None


def store_contexts(path: Path, contexts: Contexts) -> None:
    """Write the contexts in one step, readable by the user alone. Raises ContextError."""
    document = {
        "version": VERSION,
        "selected": contexts.selected,
        "contexts": {
            name: {"bootstrap": each.bootstrap, "zookeeper": each.zookeeper, **each.files.arguments()}
            for name, each in sorted(contexts.by_name.items())
        },
    }
    try:
        write_json(path, document)
    except OSError as error:
        raise ContextError(f"{path} cannot be written: {error.strerror or error}") from error


def _decoded(document: Any) -> Contexts:
    if not isinstance(document, dict) or document.get("version") != VERSION:
        raise ValueError(f"version {VERSION} is expected")
    entries = document.get("contexts")
    if not isinstance(entries, dict) or len(entries) > CONTEXTS_MAX:
        raise ValueError(f"up to {CONTEXTS_MAX} contexts are expected")
    found = {}
    for name, entry in entries.items():
        fields = entry if isinstance(entry, dict) else {}
        bootstrap, zookeeper = fields.get("bootstrap"), fields.get("zookeeper")
        if (
            not _NAME.fullmatch(name)
            or not isinstance(bootstrap, str)
            or not isinstance(zookeeper, str | None)
        ):
            raise ValueError(f"context {name!r} is not a name with a bootstrap address")
        found[name] = Context(name, bootstrap, zookeeper, _files(name, fields))
    selected = document.get("selected")
    if selected is not None and (not isinstance(selected, str) or selected not in found):
        raise ValueError(f"context {selected!r} is selected and not there")
    return Contexts(found, selected)


def _files(name: str, fields: Mapping[str, Any]) -> CredentialFiles:
    paths = [fields.get(each) for each in ("tls_ca", "tls_certificate", "tls_key", "token_file")]
    if not all(isinstance(each, str | None) for each in paths):
        raise ValueError(f"context {name!r} has a file of TLS or of a token that is no path")
    return CredentialFiles(*paths)
