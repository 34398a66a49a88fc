"""Quotas: how much each principal may take of a process, and how what is beyond that waits."""
