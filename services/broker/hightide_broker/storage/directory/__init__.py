"""A directory of logs: whose it is, its files, its health, its age."""
