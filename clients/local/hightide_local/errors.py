"""The error of the local cluster."""


class ClusterError(Exception):
    """The local cluster cannot carry out a request. The command prints the message as it is."""
