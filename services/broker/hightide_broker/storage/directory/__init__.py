"""A directory of logs: its owner, its files, its health, its age."""
