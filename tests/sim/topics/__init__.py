"""A simulated cluster of many topics: the controller's real shell and core, and real replica cores.

What sim.world does for one partition that is never moved or deleted, this does for topics that come and go:
creation, deletion and recreation, partitions added and removed, replicas moved, elections by hand.
"""
