"""A directory of logs: what it holds, and what was put aside."""
