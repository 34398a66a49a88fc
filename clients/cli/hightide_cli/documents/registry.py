"""The one registry of the documents that commands print with `-o json` (and, in another notation, with `-o
yaml`).

It is a promise. Within a major version fields are added and never taken away, nor do they change their type
or their meaning; so programs should ignore fields that they do not know. A test runs the commands and
compares their output with it, and the reference of the documentation is made from it.
"""

from collections.abc import Mapping
from typing import Final

from hightide_cli.documents.access import ACCESS_DOCUMENTS
from hightide_cli.documents.form import Document
from hightide_cli.documents.operating import OPERATING_DOCUMENTS
from hightide_cli.documents.topics import GROUP_DOCUMENTS, TOPIC_DOCUMENTS
from hightide_cli.documents.work import WORK_DOCUMENTS

DOCUMENTS: Final[Mapping[str, tuple[Document, ...]]] = {
    **TOPIC_DOCUMENTS,
    **GROUP_DOCUMENTS,
    **OPERATING_DOCUMENTS,
    **ACCESS_DOCUMENTS,
    **WORK_DOCUMENTS,
}

#: Commands that have no document of their own, and why.
WITHOUT_DOCUMENT: Final[Mapping[str, str]] = {
    "console": "it serves pages, and prints only their address",
    "completion": "it prints a program for the shell",
    "rpc call": "it prints the answer of the method, in the form of JSON that protobuf gives it",
    "pipeline archive": "a program of Spark, which prints what it has done as lines of text",
    "pipeline replay": "a program of Spark, which prints what it has done as lines of text",
    "pipeline delays": "a program of Spark, which prints what it has done as lines of text",
    "pipeline audit": "a program of Spark, which prints what it has done as lines of text",
}
