"""TLS of servers and channels: the files, their checks, credentials that follow them as they change."""
