"""How clients that have no SPIFFE URI show who they are: the settings of a process for it."""

from dataclasses import dataclass
from pathlib import Path

from hightide_runtime.access.subject_mapping import SubjectMapping


@dataclass(frozen=True, slots=True)
class TokenSettings:
    """Which tokens a process accepts: those of one issuer, for one audience, signed by a key of the file."""

    keys: Path
    issuer: str
    audience: str
    #: The claim that names the client.
    claim: str = "sub"


@dataclass(frozen=True, slots=True)
class ClientIdentities:
    """What `serve` is told of clients, beside the cluster that its own certificate names."""

    #: Where clients show certificates: who those without a SPIFFE URI are; None: nobody.
    subjects: SubjectMapping | None = None
    #: The tokens of clients at the external listener; None: it asks for none.
    tokens: TokenSettings | None = None
