"""The error of the local cluster."""


class ClusterError(Exception):
    """The local cluster cannot carry out a request. The command prints the message as it is."""


class CertificateError(ClusterError):
    """A certificate cannot be issued or read. The message names the file or the value."""


class RepositoryError(ClusterError):
    """A Maven repository does not give a jar. The message names the jar, the repository and the reason."""
