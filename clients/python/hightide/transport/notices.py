"""Writes what cores tell into the program's log."""

import logging

from hightide.calls.notice import Notice


def log_notice(notice: Notice) -> None:
    """Log one notice. Called by the shells, without the client's lock."""
    logging.getLogger(notice.logger).log(notice.level, "%s", notice.text)
