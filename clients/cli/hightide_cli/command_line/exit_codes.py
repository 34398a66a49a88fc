"""The exit codes of the command; the README of this room has the table."""

EXIT_FAILED = 1
#: `cluster health` looked, and something is not well.
EXIT_NOT_HEALTHY = 1
EXIT_USAGE = 2
EXIT_UNREACHABLE = 3
EXIT_INTERRUPTED = 130
