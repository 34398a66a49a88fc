"""docs/reference/json-output.md: what each command prints with `-o json`."""

from collections.abc import Iterator, Sequence

from hightide_cli.documents.form import Document, Field
from hightide_cli.documents.registry import DOCUMENTS, WITHOUT_DOCUMENT

from reference_pages.markdown import code, page, table


def text() -> str:
    """The page."""
    return page(
        "JSON output",
        """What commands print with `-o json`: one document on one line, or one a line where it says
        *a stream*. `-o yaml` prints the same as YAML. Within a major version fields are added and never
        taken away, nor do they change type or meaning: pass over those that you do not know. `a.b` is the
        field `b` of the object `a`, `a[].b` that of each object of the array `a`.""",
        *(_section(command, documents) for command, documents in sorted(DOCUMENTS.items())),
        "## Commands without a document",
        table(
            ("command", "because"),
            [(code(f"hightide {command}"), reason) for command, reason in sorted(WITHOUT_DOCUMENT.items())],
        ),
    )


def _section(command: str, documents: Sequence[Document]) -> str:
    parts = [f"## `hightide {command}`"]
    for document in documents:
        said = ". ".join(part[:1].upper() + part[1:] for part in (document.when, document.meaning) if part)
        parts.append(f"{said.rstrip('.')}.{' A stream.' if document.is_stream else ''}")
        rows = [
            (code(path), _type(field), field.meaning, field.since) for path, field in _walk(document.fields)
        ]
        parts.append(table(("field", "type", "what it says", "since"), rows))
    return "\n\n".join(parts)


def _walk(fields: Sequence[Field], before: str = "") -> Iterator[tuple[str, Field]]:
    for field in fields:
        yield before + field.name, field
        yield from _walk(field.fields, f"{before}{field.name}{'[]' if field.type == 'array' else ''}.")


def _type(field: Field) -> str:
    named: str = field.type
    if field.type == "array":
        named = f"array of {field.items}s" if field.items != "any" else "array"
    elif field.type == "object" and not field.fields:
        named = f"object of {field.items}s" if field.items != "any" else "object"
    return named + (" or null" if field.may_be_null else "") + (", or absent" if field.may_be_absent else "")
