"""What the local cluster raises."""


class ClusterError(Exception):
    """The local cluster cannot do what was asked. The message is fit to be printed as it is."""
