"""The simulation of consumer groups: two real coordinator cores, and everything around them made of memory.

A record is an offset in a partition; the network carries the core's own effects and events. Time stands
still but for `advance`.
"""
