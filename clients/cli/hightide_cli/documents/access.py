"""The documents of `hightide acl`, as `-o json` prints them."""

from typing import Annotated, TypedDict

from hightide_cli.documents.form import Document, fields_of, flag, many, one, text, texts, whole
from hightide_cli.documents.topics import DRY_RUN


class AclDocument(TypedDict):
    """A rule about who may do what."""

    principal: Annotated[str, "client/NAME, client/*, anonymous or *"]
    effect: Annotated[str, "allow or deny"]
    operation: Annotated[str, "what; all: everything"]
    resource_type: Annotated[str, "topic, group or cluster"]
    name: Annotated[str, "of the topic or the group; * for all"]
    pattern: Annotated[str, "literal, or prefix: all names that begin so"]


_ACL = fields_of(AclDocument)

ACCESS_DOCUMENTS = {
    "acl ls": (
        Document(
            (
                flag("enforced", "whether the controller obeys the rules"),
                texts("super_users", "who may do everything"),
                many("acls", "by principal", *_ACL),
            ),
            "The rules of the cluster.",
        ),
    ),
    "acl add": (
        Document(
            (DRY_RUN, whole("added", "how many were not there"), many("acls", "what was asked for", *_ACL)),
            "The rules that are there now.",
        ),
    ),
    "acl rm": (
        Document(
            (DRY_RUN, whole("removed", "how many were there"), many("acls", "what was asked for", *_ACL)),
            "The rules that are gone.",
        ),
    ),
    "acl check": (
        Document(
            (
                text("principal", "who"),
                text("operation", "what it wants to do"),
                text("resource_type", "topic, group or cluster"),
                text("name", "of the topic or the group"),
                flag("allowed", "whether it may"),
                flag("super_user", "whether it may do everything"),
                one("acl", "the rule that decides; null where none does", *_ACL).or_null,
            ),
            "What the rules decide.",
        ),
    ),
}
