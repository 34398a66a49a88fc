"""Logging to stderr, one line an event."""


def set_up_logging(level: str, process: str) -> None:
    """Send the root logger to stderr: time, level, process name, logger, message. Mains call it once.

    Line breaks and control characters in a message are escaped, so that no client can forge a line.
    """
    raise NotImplementedError
