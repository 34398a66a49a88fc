"""Histories: the observations of clients of a cluster under faults, and the check of them. For tests and
`bench faults`."""
